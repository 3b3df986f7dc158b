// Let pi fork a session: node pi_fork.mjs <pi's folder> <file> <leaf id>
// Prints the new file's path. What /fork does: the branch is copied, labels move to the end.
import { join } from "node:path";

const [folder, file, leaf] = process.argv.slice(2);
const { SessionManager } = await import(join(folder, "dist/core/session-manager.js"));
console.log(SessionManager.open(file).createBranchedSession(leaf));
