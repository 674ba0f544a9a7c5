// Starts `relayvm lsp` for texts of Relay.
"use strict";

const vscode = require("vscode");
const { LanguageClient } = require("vscode-languageclient/node");

let client;

function makeClient() {
  const command = vscode.workspace.getConfiguration("relayvm").get("path");
  const server = { command, args: ["lsp"] };
  const options = { documentSelector: [{ language: "relay" }] };
  return new LanguageClient("relayvm", "Relay", server, options);
}

async function start() {
  client = makeClient();
  try {
    await client.start();
  } catch (error) {
    const path = vscode.workspace.getConfiguration("relayvm").get("path");
    vscode.window.showErrorMessage(`\`${path} lsp\` does not start; the setting relayvm.path names the program. ${error.message}`);
  }
}

async function stop() {
  const old = client;
  client = undefined;
  if (old && old.needsStop()) await old.stop();
}

async function activate(context) {
  const restart = async () => {
    await stop();
    await start();
  };
  context.subscriptions.push(vscode.commands.registerCommand("relayvm.restart", restart));
  context.subscriptions.push(
    vscode.workspace.onDidChangeConfiguration((event) => {
      if (event.affectsConfiguration("relayvm.path")) return restart();
    }),
  );
  await start();
}

module.exports = { activate, deactivate: stop };
