"""Run directories made for tests, whose numbers are small enough to follow."""

import json

from omegaconf import OmegaConf

SPARSE = ("sparsity_down", "sparsity_up", "sparsity_model", "mask_iou", "regrowth", "kept_change", "densities")
MEMORY = ("memory_server_mb", "memory_client_mb")
CLIENTS, GROUPS, GROUP_BYTES, GROUP_MACS = 10, 4, 1000, 1_000_000
DENSE = GROUPS * GROUP_BYTES


def rows_of(accuracies, partial=True, **last):
    """Round 0, two full rounds, then one layer group a round; down and up weigh the same for each client."""
    rows, total = [], 0
    for r, accuracy in enumerate(accuracies):
        groups = [(r - 3) % GROUPS] if partial and r > 2 else []
        sent = CLIENTS * GROUP_BYTES * (len(groups) or GROUPS) if r else 0
        dense = CLIENTS * DENSE if r else 0
        work = CLIENTS * GROUP_MACS * (len(groups) or GROUPS) if r else 0
        total += sent
        rows.append(
            {
                "round": r, "phase": ("partial" if groups else "full") if r else None, "groups": groups,
                "accuracy": accuracy, "loss": None if accuracy is None else 2.3 - 2 * accuracy,
                "train_loss": 2.2 - 2 * r / len(accuracies) if r else None,
                "sampled": list(range(CLIENTS)) if r else [], "completed": CLIENTS if r else 0,
                "failed": 0, "rejected": 0, "reasons": {},
                "bytes_down": sent, "bytes_up": sent, "bytes_down_total": total, "bytes_up_total": total,
                "bytes_dense": 2 * dense, "bytes_dense_up": dense,
                "macs": work, "macs_dense": CLIENTS * GROUPS * GROUP_MACS if r else 0,
                **dict.fromkeys(SPARSE + MEMORY), "seconds_round": 1.5, "seconds_server": 0.1, "seconds_train": 1.2,
            }
        )  # fmt: skip
    rows[-1].update(last)
    return rows


def sparse_rows(**constant):
    """Three rounds whose sparsities, agreement and densities can be told apart: what is recorded, by name."""
    return {
        "sparsity_down": [0.0, 0.8, 0.875], "sparsity_up": [0.9, 0.9, 0.9], "sparsity_model": [0.8, 0.875, 0.89],
        "mask_iou": [0.25, 0.5, 0.75], "regrowth": [0.1, 0.025, 0.01], "kept_change": [0.5, 0.05, 0.005],
        "densities": [{"a.weight": 1.0, "b.weight": share} for share in (0.1, 0.01, 0.0)],
        "memory_server_mb": [100.0, 110.0, 120.0], **constant,
    }  # fmt: skip


def write_run(folder, accuracies=(0.1, 0.4, 0.6, 0.7, 0.8, 0.9, 0.875), seed=0, strategy="FedPart", finished=True,
              config=(), recorded=(), summary=(), **last):  # fmt: skip
    """A run directory as a run leaves it; `recorded` names fields with their values from round 1 on."""
    folder.mkdir(parents=True)
    rows = rows_of(accuracies, partial=strategy == "FedPart", **last)
    for name, values in dict(recorded).items():
        for row, value in zip(rows[1:], values, strict=True):
            row[name] = value
    (folder / "rounds.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    cfg = OmegaConf.create(
        {
            "rounds": len(rows) - 1, "seed": seed, "resume": None, "client": {"lr": 0.001}, "task": {"name": "digits"},
            "strategy": {"_target_": f"strategies.{strategy.lower()}.{strategy}Strategy"},
            "cohort": {"_target_": "strategies.cohort.Cohort", "seed": seed},
        }
    )  # fmt: skip
    if strategy == "FedPart":
        cfg.strategy.warmup = 2
    for key, value in dict(config).items():
        OmegaConf.update(cfg, key, value, force_add=True)
    OmegaConf.save(cfg, folder / "config.yaml")
    if finished:
        written = {
            "strategy": f"{strategy}Strategy", "task": "digits", "seed": seed, "batch_norm": "global",
            "evaluated_with": "averaged running statistics", "versions": {"python": "3.12.1", "torch": None},
            "bytes_up_total": 120_000, "ratio_bytes": 0.7035370490097582, "model_sha256": "ab" * 32, **dict(summary),
        }  # fmt: skip
        (folder / "summary.json").write_text(json.dumps(written))
    return folder
