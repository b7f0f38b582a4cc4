"""Full-model LLM serving on the machine that ``hw.params`` describes.

    requests -> batching -> pass (rows of prefill and decode) -> layer plan
             -> delivery over the paths of the topology + GPU kernels -> metrics

- ``models``: shapes from a Hugging Face ``config.json``; the six models of the DASH paper
- ``gpu``: kernel times of the serving model
- ``kernels``: kernel times from three sources: these, fitted rooflines, measured tables
- ``memory``: the timing record measured on the RTL, placement, delivery
- ``lookahead``: the early choice of experts: where it is exact, and what it costs
- ``system``: model, topology, timing and GPU put together
- ``serving``: loads, continuous batching, fixed batches, metrics
- ``report``: result folders, tables, figures

No RTL and no simulator is imported here: the two levels meet in the machine description and in
the timing record.
"""
