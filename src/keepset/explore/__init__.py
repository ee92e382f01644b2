"""Stage 11: the page. ``keepset explore`` serves it on this machine; extra ``explore`` (gradio).

What computes: ``explorer`` (the model and what a visitor has), ``asking`` (what a reply rests on), ``keeping`` (what is
kept, and what is then answered), ``claims`` (the paper). Plain functions: no gradio in them.
What draws: ``drawn_asking``, ``drawn_keeping``, ``drawn_claims``: HTML, every text escaped.
What shows: ``page`` (components and events), ``server`` (limits, headers, the port).
"""
