/**
 * The run API of Provost: hand in work, watch it, steer it, answer its questions.
 *
 *     const client = new Client();           // PROVOST_SERVER and PROVOST_TOKEN say where and who
 *     const accepted = await client.submitTask({ message: "What is 6 * 7?" });
 *     for await (const item of client.streamRun(accepted.run)) {
 *       if (item.kind === "delta" && item.data.type === "text_delta") process.stdout.write(item.data.text);
 *     }
 */
import { Operations } from "./generated.js";

export { ApiError, type ConnectionOptions, type StreamItem } from "./connection.js";
export type * from "./generated.js";

/** A client for one namespace of a server. */
export class Client extends Operations {}
