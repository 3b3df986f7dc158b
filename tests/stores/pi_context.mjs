// What pi itself would send of session files: node pi_context.mjs <pi's folder> <file>...
// One line of JSON a file. pi rewrites old files when it opens them, so it gets a copy.
import { copyFileSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

const [folder, ...files] = process.argv.slice(2);
const { SessionManager } = await import(join(folder, "dist/core/session-manager.js"));
const scratch = mkdtempSync(join(tmpdir(), "pi-context-"));
for (const file of files) {
  const copy = join(scratch, "session.jsonl");
  copyFileSync(file, copy);
  const session = SessionManager.open(copy);
  const { entries } = session.buildSessionProjection();
  console.log(JSON.stringify(entries.flatMap(({ sourceEntry, messages }) => messages.map((message) => [sourceEntry.id, message]))));
}
rmSync(scratch, { recursive: true });
