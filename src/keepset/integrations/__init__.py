"""Stage 10: keepset where users already stand; each file needs the package it is named after, and nobody else does.

    pip install 'keepset[langchain]'        keepset.integrations.langchain        KeepsetTransformer, KeepsetCompressor
    pip install 'keepset[llama-index]'      keepset.integrations.llama_index      KeepsetTransform, KeepsetPostprocessor
    pip install 'keepset[haystack]'         keepset.integrations.haystack         KeepsetDocumentCompressor
    (nothing)                               keepset.integrations.messages         compress_messages
    pip install kvpress                     keepset.integrations.kvpress          KeepsetPress, for a trained router

Two places in a pipeline: where documents come in, nobody has asked yet and each is compressed by itself; after
retrieval the question is known and the documents share the room, so the one that answers may stay whole.
"""
