"""Frozen pretrained models on records in natural language (Section 7; appendices "Operator robustness" and "The
first-token sink").

Reading order: ``settings`` (models, sizes), ``examples`` (what is asked), ``judge`` (forced choice under keep sets),
``readings`` (scores of records from one forward), ``probing`` and ``audit`` and ``selection`` (no training);
``routers``, ``lessons`` (what routers learn from), ``routing``, ``absorbing``, ``scaling``, ``overwriting``;
``two_hop`` and ``lookup`` (two records behind an answer); ``squad`` (natural text). Each of these is an experiment.
"""
