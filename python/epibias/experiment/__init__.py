"""Experiments: a plan of cells, a run folder that survives a kill, tables, figures, a report.

`plan` says what is run, `measure` runs one topic, `run_folder` keeps what was measured, `tables`,
`trec`, `figures` and `report` turn the kept rows into files, `demo` is the main job that joins
them. Nothing is imported here, so that a missing extra only matters to the part that needs it.
"""
