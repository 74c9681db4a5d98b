"""The metrics of a verifier as tables and pages name them."""

SCALARS = {
    "auc_within_task": "AUC within task",
    "auc_within_task_patches": "AUC by patch",
    "auc_pooled": "AUC pooled",
    "ece_width_10": "ECE",
    "ece_less_floor": "ECE less floor",
    "brier": "Brier",
}
"""Those that the table of a sweep has, which are one number each."""
