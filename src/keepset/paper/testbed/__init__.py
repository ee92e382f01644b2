"""The synthetic half of the paper: tasks with known evidence, teachers, and routers over their tokens."""
