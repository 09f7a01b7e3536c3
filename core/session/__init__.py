"""The `.session` file: events as lines of JSON, in compressed frames that each stand alone.

Writing: `wire` packs a round, `codec` makes lines of events, `build` makes frames of lines; `writer` puts
them into a file and `compact` rewrites it when it is closed. `spool` is the engine's recorder, `keep` its
copy for the user, `recover` finds what a killed one left.

Reading: `frames` knows a frame's bytes, `index` where the frames are; `reader` gives the events of a file,
`ranges` any stretch of them, `follow` those of a growing one, `dump` their canonical text, `redact` a copy
without what was said. `skim` finds the rounds of a frame without reading them; `outline` keeps what it found.
"""
