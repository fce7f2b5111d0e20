"""The server of Flower's app: starts the rounds and averages the weights."""

from digits import PARTS, RATE, accuracy, first
from flwr.app import ArrayRecord, ConfigRecord, Context
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context):
    module = first(context.run_config["seed"])
    strategy = FedAvg(fraction_train=1.0, fraction_evaluate=0.0, min_available_nodes=PARTS)
    result = strategy.start(
        grid=grid,
        initial_arrays=ArrayRecord(module.state_dict()),
        train_config=ConfigRecord({"lr": RATE}),
        num_rounds=context.run_config["num-server-rounds"],
    )
    module.load_state_dict(result.arrays.to_torch_state_dict())
    print(f"accuracy {accuracy(module):.4f}")
