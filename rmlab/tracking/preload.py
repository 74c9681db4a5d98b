"""What a fork server imports before any run exists: MLflow and the mapping of its sqlite store, which each run would load again."""

from rmlab.tracking.store import quiet_environment

quiet_environment()

import mlflow.store.tracking.sqlalchemy_workspace_store  # noqa: E402, F401
import sqlalchemy.dialects.sqlite  # noqa: E402, F401
from sqlalchemy.orm import configure_mappers  # noqa: E402

configure_mappers()
