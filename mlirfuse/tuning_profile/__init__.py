"""Profiles of `mlirfuse-tune`: files of measured settings for a model on a target.

profile = file.read(path)
applied = application.apply(profile, fingerprint, target, options)
"""
