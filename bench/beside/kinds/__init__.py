"""Kinds of cases: each module has `case(rng)`."""
