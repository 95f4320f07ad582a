#!/usr/bin/env bash
# Starts the server's SuperLink: TLS, devices known by their keys, state on disk.
# FEDSLICE_CERTIFICATES: the folder of certificates.sh. FEDSLICE_STATE: a folder that outlives restarts.
set -euo pipefail
: "${FEDSLICE_CERTIFICATES:?the folder of certificates.sh}" "${FEDSLICE_STATE:?a folder for the state}"
export FLWR_HOME=$FEDSLICE_STATE/flower
export FLWR_TELEMETRY_ENABLED=0 FLWR_DISABLE_UPDATE_CHECK=1 FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION=1
mkdir -p "$FLWR_HOME"
exec flower-superlink \
    --host 127.0.0.1 --port "${FEDSLICE_PORT:-8000}" \
    --ssl-ca-certfile "$FEDSLICE_CERTIFICATES/ca.crt" \
    --ssl-certfile "$FEDSLICE_CERTIFICATES/server.pem" \
    --ssl-keyfile "$FEDSLICE_CERTIFICATES/server.key" \
    --enable-supernode-auth \
    --database "$FEDSLICE_STATE/superlink.db"
