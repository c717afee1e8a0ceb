# Runs before the agent: a new pod joins from its own bundle; then every pod gets its configuration.
set -eu
state=/var/lib/sottovoce/device
if [ ! -e "$state" ]; then
    cp "/bundles/${POD%%.*}" /tmp/bundle  # joining replaces the bundle with a note, but secrets are read-only
    sottovoce fleet join --bundle /tmp/bundle --state "$state" --epsilon "$EPSILON" --delta "$DELTA"
    rm /tmp/bundle
fi
sed "s/@POD@/$POD/" /config/agent.toml > /run/sottovoce/agent.toml
