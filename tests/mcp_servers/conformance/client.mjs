// The official TypeScript SDK's client: node client.mjs '{"url" or "command", "args", "env", "calls": [[tool, arguments], …]}'.
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";

const told = JSON.parse(process.argv[2]);
const client = new Client({ name: "tests", version: "1" });
await client.connect(
  told.url
    ? new StreamableHTTPClientTransport(new URL(told.url), { requestInit: { headers: told.headers ?? {} } })
    : new StdioClientTransport({ command: told.command, args: told.args, env: told.env, stderr: "ignore" }),
);
const { tools } = await client.listTools();
const answers = [];
for (const [name, args] of told.calls) answers.push(await client.callTool({ name, arguments: args }));
console.log(JSON.stringify({ server: client.getServerVersion()?.name, tools: tools.map((tool) => tool.name), answers }));
await client.close();
