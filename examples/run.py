"""A run from Python: `python examples/run.py` fine-tunes the embedded model once and says what happens meanwhile."""

from tuneloop import RunSpec, stream

for event in stream(RunSpec(benchmark="wordproblems", base_model="tiny", loop_n=1)):
    if event.kind == "run_started":
        print("run", event.run)
    elif event.kind == "agent_answered":
        print(f"{event.agent}: {event.says}")
    elif event.kind == "experiment_finished":
        print(f"experiment {event.experiment}: {event.outcome}, {event.value}")
    elif event.kind == "run_finished":
        print(event.report)
