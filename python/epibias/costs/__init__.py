"""What a deployed defence costs: the time of each stage, and memory and time against N.

Measures, and says how; the command line shows it. Nothing here decides a result.
"""
