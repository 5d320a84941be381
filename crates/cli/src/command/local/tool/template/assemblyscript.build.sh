#!/bin/sh
# Needs Node. ASC may name a compiler that is there already.
set -e
${ASC:-npx --yes --package assemblyscript@0.28.20 asc} tool.ts --optimize --runtime stub --use abort=tool/abort --outFile TOOL_NAME.wasm
