"""The plain way to walk and to learn, that of the published code: a rival with the same network and the same sums.

Instructions are padded to the task's limit, and their keys and values projected anew at every step. Observations,
teachers and rewards are made one agent after the other. The rows that follow the teacher and those that explore are
rolled out apart, each with a reading of its own, and go on until all of their rows have stopped: who has stopped
earlier goes along. Everything is in float32, and nothing is recorded.
"""
