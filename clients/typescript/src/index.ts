/**
 * Client for the HTTP API of Provost: submit tasks, stream events, steer runs and decide about approvals.
 *
 *     const client = new Client();           // reads PROVOST_SERVER and PROVOST_TOKEN
 *     const receipt = await client.submitTask({ message: "What is 6 * 7?" });
 *     for await (const item of client.streamRun(receipt.run)) {
 *       if (item.kind === "delta" && item.data.type === "text_delta") process.stdout.write(item.data.text);
 *     }
 */
import { Operations } from "./generated.js";

export { ApiError, type ConnectionOptions, type StreamItem } from "./connection.js";
export type * from "./generated.js";

/** A client for one namespace of a server. */
export class Client extends Operations {}
