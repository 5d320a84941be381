// The whole journey against a real server: PROVOST_SERVER and PROVOST_TOKEN say where it is (scripts/conformance clients starts one).

import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { describe, it } from "node:test";

import { ApiError, Client } from "../src/index.js";

const skip = process.env["PROVOST_SERVER"] === undefined ? "PROVOST_SERVER is not set" : false;

describe("the journey", { skip }, () => {
  const client = new Client();

  it("submits, streams and waits", async () => {
    const key = randomUUID();
    const accepted = await client.submitTask({ message: "What is 6 * 7?" }, { idempotencyKey: key });
    const again = await client.submitTask({ message: "What is 6 * 7?" }, { idempotencyKey: key });
    assert.deepEqual([again.task, again.deduped], [accepted.task, true]);
    const items = [];
    for await (const item of client.streamRun(accepted.run)) items.push(item);
    assert.equal(items.at(-1)?.kind, "end");
    const durable = items.filter((item) => item.kind === "event");
    assert.deepEqual(durable.map((item) => item.data.seq), durable.map((_, index) => index + 1));
    const waited = await client.waitForRun(accepted.run, { timeout_ms: 10_000 });
    assert.equal(waited.run.status, "ok");
    assert.match(waited.run.answer ?? "", /42/);
    const rest = [];
    for await (const item of client.streamRun(accepted.run, { after: durable[0]?.cursor ?? "", deltas: false })) {
      if (item.kind === "event") rest.push(item.data.seq);
    }
    assert.deepEqual(rest, durable.slice(1).map((item) => item.data.seq));
  });

  async function asked(session: string) {
    const accepted = await client.submitTask({ message: "Save a note: the sky is blue", session });
    for await (const item of client.streamRun(accepted.run, { deltas: false })) {
      if (item.kind === "event" && item.data.kind === "approval_needed") {
        return { accepted, question: String(item.data.data.request.id) };
      }
    }
    throw new Error("nobody was asked");
  }

  it("steers and approves", async () => {
    const { accepted, question } = await asked(`ts-${randomUUID()}`);
    const open = await client.listApprovals({ run: accepted.run });
    assert.ok(open.items.some((found) => found.id === question));
    const receipt = await client.sayToRun(accepted.run, { message: "and thank you", mode: "steer" });
    assert.ok(["direct", "queued", "steered"].includes(receipt.outcome));
    assert.equal((await client.answerApproval(question, { decision: "approve" })).counts, true);
    assert.equal((await client.waitForRun(accepted.run, { timeout_ms: 10_000 })).run.status, "ok");
  });

  it("cancels and forks", async () => {
    const { accepted } = await asked(`ts-${randomUUID()}`);
    assert.equal((await client.cancelRun(accepted.run)).outcome, "now");
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
