// The main operations against a real server. PROVOST_SERVER and PROVOST_TOKEN select it; `scripts/conformance clients` starts one.

import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { describe, it } from "node:test";

import { ApiError, Client } from "../src/index.js";

const skip = process.env["PROVOST_SERVER"] === undefined ? "PROVOST_SERVER is not set" : false;

describe("the journey", { skip }, () => {
  const client = new Client();

  it("submits, streams and waits", async () => {
    const key = randomUUID();
    const receipt = await client.submitTask({ message: "What is 6 * 7?" }, { idempotencyKey: key });
    const again = await client.submitTask({ message: "What is 6 * 7?" }, { idempotencyKey: key });
    assert.deepEqual([again.task, again.deduped], [receipt.task, true]);
    const items = [];
    for await (const item of client.streamRun(receipt.run)) items.push(item);
    assert.equal(items.at(-1)?.kind, "end");
    const durable = items.filter((item) => item.kind === "event");
    assert.deepEqual(durable.map((item) => item.data.seq), durable.map((_, index) => index + 1));
    const waited = await client.waitForRun(receipt.run, { timeout_ms: 10_000 });
    assert.equal(waited.run.status, "ok");
    assert.match(waited.run.answer ?? "", /42/);
    const rest = [];
    for await (const item of client.streamRun(receipt.run, { after: durable[0]?.cursor ?? "", deltas: false })) {
      if (item.kind === "event") rest.push(item.data.seq);
    }
    assert.deepEqual(rest, durable.slice(1).map((item) => item.data.seq));
  });

  async function startRunWithApproval(session: string) {
    const receipt = await client.submitTask({ message: "Save a note: the sky is blue", session });
    for await (const item of client.streamRun(receipt.run, { deltas: false })) {
      if (item.kind === "event" && item.data.kind === "approval_needed") {
        return { receipt, approval: String(item.data.data.request.id) };
      }
    }
    throw new Error("no approval was requested");
  }

  it("steers and approves", async () => {
    const { receipt, approval } = await startRunWithApproval(`ts-${randomUUID()}`);
    const open = await client.listApprovals({ run: receipt.run });
    assert.ok(open.items.some((found) => found.id === approval));
    const inputReceipt = await client.sendRunInput(receipt.run, { message: "and thank you", mode: "steer" });
    assert.ok(["direct", "queued", "steered"].includes(inputReceipt.outcome));
    assert.equal((await client.decideApproval(approval, { decision: "approve" })).counts, true);
    assert.equal((await client.waitForRun(receipt.run, { timeout_ms: 10_000 })).run.status, "ok");
  });

  it("cancels and forks", async () => {
    const { receipt } = await startRunWithApproval(`ts-${randomUUID()}`);
    assert.equal((await client.cancelRun(receipt.run)).outcome, "now");
    const done = await client.submitTask({ message: "What is 2 + 3?" });
    await client.waitForRun(done.run, { timeout_ms: 10_000 });
    const forked = await client.forkRun(done.run, { say: "And what is 3 + 4?" });
    const waited = await client.waitForRun(forked.run, { timeout_ms: 10_000 });
    assert.deepEqual([waited.run.status, waited.run.forked_from], ["ok", done.run]);
    assert.match(waited.run.answer ?? "", /7/);
  });

  it("types refusals", async () => {
    await assert.rejects(client.getRun("run_00000000000000000000000000"), (error: unknown) => {
      return error instanceof ApiError && error.status === 404 && error.code === "not_found";
    });
    await assert.rejects(new Client({ token: "prv_wrong" }).listTasks(), { status: 401 });
  });
});
