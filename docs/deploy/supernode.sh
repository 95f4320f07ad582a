#!/usr/bin/env bash
# Starts a device's SuperNode: TLS, its own key, its own data.
# FEDSLICE_SUPERLINK: host:port. FEDSLICE_CA: ca.crt. FEDSLICE_KEY: the device's private key.
# FEDSLICE_NODE: its number, from 0, and its data. FEDSLICE_STATE: a folder for the apps that it is sent,
# and for what it keeps of its own from round to round (MOON's local models, rounding errors).
set -euo pipefail
: "${FEDSLICE_SUPERLINK:?host:port of the server}" "${FEDSLICE_CA:?the ca.crt of certificates.sh}"
: "${FEDSLICE_KEY:?the private key of this device}" "${FEDSLICE_STATE:?a folder for the state}"
: "${FEDSLICE_NODE:?such as partition-id=0 data-path=\"/srv/own.npz\"}"
export FLWR_HOME=$FEDSLICE_STATE/flower FEDSLICE_MEMORY_DIR=$FEDSLICE_STATE/memory
export FLWR_TELEMETRY_ENABLED=0 FLWR_DISABLE_UPDATE_CHECK=1
mkdir -p "$FLWR_HOME"
exec flower-supernode \
    --superlink "$FEDSLICE_SUPERLINK" \
    --root-certificates "$FEDSLICE_CA" \
    --auth-supernode-private-key "$FEDSLICE_KEY" \
    --node-config "$FEDSLICE_NODE" \
    --port "${FEDSLICE_PORT:-9094}"
