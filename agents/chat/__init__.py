"""The planner that asks chat models; langchain is imported only when one is set."""
