"""The client of Flower's app: trains the CNN on its part of the rows in each round."""

import torch
from digits import BATCH, EPOCHS, Cnn, part
from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from torch.utils.data import DataLoader, TensorDataset

app = ClientApp()


@app.train()
def train(message: Message, context: Context):
    module = Cnn()
    module.load_state_dict(message.content["arrays"].to_torch_state_dict())
    X, y = part(context.node_config["partition-id"])
    rows = TensorDataset(torch.from_numpy(X), torch.from_numpy(y))
    loader = DataLoader(rows, batch_size=BATCH, shuffle=True)
    rate = message.content["config"]["lr"]
    optimizer = torch.optim.SGD(module.parameters(), lr=rate, momentum=0.9)
    module.train()
    total = 0.0
    for _ in range(EPOCHS):
        for inputs, labels in loader:
            optimizer.zero_grad()
            loss = torch.nn.functional.cross_entropy(module(inputs), labels)
            loss.backward()
            optimizer.step()
            total += float(loss.detach())
    metrics = {"train_loss": total / (EPOCHS * len(loader)), "num-examples": len(rows)}
    content = RecordDict({"arrays": ArrayRecord(module.state_dict()), "metrics": MetricRecord(metrics)})
    return Message(content=content, reply_to=message)
