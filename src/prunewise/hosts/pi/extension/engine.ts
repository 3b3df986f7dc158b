// The engine process, seen from pi: started, asked, given up on, started again.
//
// JSON-RPC 2.0, one object a line, split on LF bytes. Every call ends within its deadline, whatever the
// process does: dead, it rejects at once; stopped, it is late, and nobody waits for it a second time.

import { type ChildProcessWithoutNullStreams, spawn } from "node:child_process";
import { existsSync } from "node:fs";
import { delimiter, isAbsolute, join } from "node:path";

const PROTOCOL = 1;
const WRONG_VERSION = -32001;
const LATE_FOR = 5; // deadlines; a process that is late for so long is replaced
const LONGEST_PAUSE = 60_000;
const TAIL = 2_000;

/** What the engine answers to `hello`. */
export interface Welcome {
	completions: Record<string, string[]>;
}

interface Pending {
	resolve(value: unknown): void;
	reject(error: Error): void;
	timer: NodeJS.Timeout;
}

/** How long any call may take, in milliseconds. */
export function deadline(): number {
	const named = Number(process.env.PRUNEWISE_DEADLINE_MS);
	return Number.isFinite(named) && named > 0 ? named : 2_000;
}

/** The command lines to try, in order: the environment's, the one installed with, the one on PATH. */
function launches(python: string | undefined): string[][] {
	const module = ["-P", "-u", "-m", "prunewise.hosts.pi"];
	const named = process.env.PRUNEWISE_PYTHON;
	const found: string[][] = [];
	if (named) found.push([named, ...module]);
	if (python) found.push([python, ...module]);
	found.push(["prunewise", "pi", "engine"]);
	return found;
}

function isThere(program: string): boolean {
	if (isAbsolute(program) || program.includes("/")) return existsSync(program);
	const endings = process.platform === "win32" ? [".exe", ".cmd", ""] : [""];
	const folders = (process.env.PATH ?? "").split(delimiter);
	return folders.some((folder) => folder && endings.some((ending) => existsSync(join(folder, program + ending))));
}

/** The process has ended, before or while it was asked. */
export class Gone extends Error {}

export class Engine {
	/** How many processes there have been: what one of them knew, the next does not. */
	generation = 0;
	welcome: Welcome | undefined;
	readonly #python: string | undefined;
	readonly #greeting: () => object;
	#child: ChildProcessWithoutNullStreams | undefined;
	#pending = new Map<number, Pending>();
	#next = 1;
	#late: NodeJS.Timeout | undefined;
	#launch = 0;
	#failures = 0;
	#pausedUntil = 0;
	#hopeless: string | undefined;
	#reason = "it has not been started";

	constructor(python: string | undefined, greeting: () => object) {
		this.#python = python;
		this.#greeting = greeting;
	}

	/** Start the process unless it runs. Does not wait; throws where it may not be started now. */
	ensure(): void {
		if (this.#child) return;
		if (this.#hopeless) throw new Error(this.#hopeless);
		if (Date.now() < this.#pausedUntil) throw new Error(this.#reason);
		const all = launches(this.#python);
		while (this.#launch < all.length && !isThere(all[this.#launch][0])) this.#launch++;
		if (this.#launch >= all.length) {
			this.#launch = 0;
			const tried = all.map(([program]) => program).join(", ");
			this.#fail(this.generation ? this.#reason : `there is no interpreter with prunewise (looked for ${tried})`);
			throw new Error(this.#reason);
		}
		this.#spawn(all[this.#launch]);
	}

	/** Ask the engine. Rejects when there is none, when it fails, after `milliseconds`, and at the signal. */
	call<T>(method: string, params: object, milliseconds = deadline(), signal?: AbortSignal): Promise<T> {
		try {
			this.ensure();
		} catch (error) {
			return Promise.reject(error);
		}
		if (this.#late) return Promise.reject(new Error("the engine has not answered in time"));
		return this.#ask<T>(method, params, milliseconds, signal).then((answer) => {
			this.#failures = 0;
			return answer;
		});
	}

	/** End the process, by whatever it takes. */
	async stop(): Promise<void> {
		const child = this.#child;
		this.#hopeless = "the session is over";
		if (!child) return;
		this.#forget(new Error("the session is over"));
		const within = (milliseconds: number) =>
			new Promise<boolean>((resolve) => {
				const timer = setTimeout(() => resolve(false), milliseconds);
				child.once("exit", () => {
					clearTimeout(timer);
					resolve(true);
				});
			});
		child.stdin.end();
		if (await within(250)) return;
		child.kill("SIGTERM");
		if (await within(250)) return;
		child.kill("SIGKILL");
		await within(500);
	}

	/** Replace a process that is of no more use. */
	discard(reason: string): void {
		const child = this.#child;
		if (!child) return;
		this.#fail(reason);
		this.#forget(new Error(reason));
		child.kill("SIGKILL");
	}

	#spawn([program, ...args]: string[]): void {
		const child = spawn(program, args, { stdio: ["pipe", "pipe", "pipe"], windowsHide: true });
		this.#child = child;
		this.generation++;
		this.welcome = undefined;
		let complaints = "";
		let rest: Buffer[] = [];
		const ended = (what: string) => {
			if (this.#child !== child) return;
			const last = complaints.trim().split("\n").at(-1) ?? "";
			this.#ended(last ? `${what}: ${last}` : what);
		};
		child.on("error", (error) => ended(`${program}: ${error.message}`));
		child.on("exit", (code, signal) => ended(`the engine has ended (${signal ?? `exit code ${code}`})`));
		child.stdin.on("error", () => {}); // its end is told by `exit`
		child.stderr.on("data", (chunk: Buffer) => {
			complaints = (complaints + chunk.toString("utf8")).slice(-TAIL);
		});
		child.stdout.on("data", (chunk: Buffer) => {
			let start = 0;
			for (let end = chunk.indexOf(10); end !== -1; end = chunk.indexOf(10, start)) {
				rest.push(chunk.subarray(start, end));
				if (this.#child === child) this.#take(rest.length === 1 ? rest[0] : Buffer.concat(rest));
				rest = [];
				start = end + 1;
			}
			if (start < chunk.length) rest.push(chunk.subarray(start));
		});
		// A call keeps pi alive by its timer; the process itself never does.
		child.unref();
		for (const stream of [child.stdin, child.stdout, child.stderr]) (stream as { unref?(): void }).unref?.();
		this.#ask<Welcome>("hello", { protocol: PROTOCOL, ...this.#greeting() }, deadline() * LATE_FOR).then(
			(welcome) => {
				this.welcome = welcome;
			},
			() => {}, // told to whoever asks next
		);
	}

	#ask<T>(method: string, params: object, milliseconds: number, signal?: AbortSignal): Promise<T> {
		const child = this.#child as ChildProcessWithoutNullStreams;
		const id = this.#next++;
		return new Promise<T>((resolve, reject) => {
			if (signal?.aborted) throw new Error("aborted");
			signal?.addEventListener(
				"abort",
				() => {
					clearTimeout(this.#pending.get(id)?.timer);
					this.#pending.delete(id);
					reject(new Error("aborted"));
				},
				{ once: true },
			);
			const timer = setTimeout(() => {
				this.#pending.delete(id);
				// It may only be slow: it is left alone until it answers, or for so long.
				this.#late ??= setTimeout(() => this.discard("the engine has stopped answering"), milliseconds * (LATE_FOR - 1));
				this.#late.unref();
				reject(new Error(`the engine has not answered in time (${(milliseconds / 1000).toFixed(1)} s)`));
			}, milliseconds);
			this.#pending.set(id, { resolve: resolve as (value: unknown) => void, reject, timer });
			child.stdin.write(`${JSON.stringify({ jsonrpc: "2.0", id, method, params })}\n`);
		});
	}

	#take(line: Buffer): void {
		this.#punctual();
		let message: { id?: number; result?: unknown; error?: { code: number; message: string } };
		try {
			message = JSON.parse(line.toString("utf8"));
		} catch {
			this.discard("the engine wrote something that is no answer");
			return;
		}
		if (message.error?.code === WRONG_VERSION) {
			this.#hopeless = message.error.message; // in this session no other one will do better
			this.discard(this.#hopeless);
			return;
		}
		// Without an id it could not be read: they are answered in order, so it was the oldest.
		const id = message.id ?? this.#pending.keys().next().value;
		const pending = id === undefined ? undefined : this.#pending.get(id);
		if (id === undefined || !pending) return;
		this.#pending.delete(id);
		clearTimeout(pending.timer);
		if (message.error) pending.reject(new Error(message.error.message));
		else pending.resolve(message.result);
	}

	#punctual(): void {
		clearTimeout(this.#late);
		this.#late = undefined;
	}

	#ended(reason: string): void {
		const greeted = this.welcome !== undefined;
		this.#reason = reason;
		this.#forget(new Gone(reason));
		if (greeted) {
			this.#fail(reason);
			return;
		}
		// This one has never worked: perhaps the next does.
		this.#launch++;
		if (this.#launch < launches(this.#python).length) {
			try {
				this.ensure();
			} catch {} // told to whoever asks next
		} else {
			this.#launch = 0;
			this.#fail(reason);
		}
	}

	#fail(reason: string): void {
		this.#reason = reason;
		// The first time it may start again at once; then after 1, 2, 4 ... seconds.
		this.#pausedUntil = this.#failures ? Date.now() + Math.min(500 * 2 ** this.#failures, LONGEST_PAUSE) : 0;
		this.#failures++;
	}

	#forget(error: Error): void {
		this.#child = undefined;
		this.#punctual();
		const pending = [...this.#pending.values()];
		this.#pending.clear();
		for (const one of pending) {
			clearTimeout(one.timer);
			one.reject(error);
		}
	}
}
