"""The planner bench: how far from the best recipe a planner still is after so many experiments."""
