"""The only place that computes numbers: every figure on screen, in JSON and in an export comes from here.

`Ledger` takes events and keeps counts; the other modules turn its turns into figures: `spans` (time),
`bandwidth` (bytes against ceilings), `why` (what bounds a round), `race` (lanes side by side), `summary` (the
JSON object) and `validate` (the identities every stream must hold).
"""
