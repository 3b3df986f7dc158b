// prunewise in pi: hands each request to the engine process and applies what comes back.
//
// Nothing is decided here. What pi is about to send goes over as a difference to the last time, keyed by
// entry ids; the engine reads the entries themselves from the session file. Back come edits. Whatever
// fails, the request goes out as it is.

import { createHash } from "node:crypto";
import { writeSync } from "node:fs";
import { isDeepStrictEqual } from "node:util";
import type {
	ContextEvent,
	ExtensionAPI,
	ExtensionCommandContext,
	ExtensionContext,
	SessionEntry,
} from "@earendil-works/pi-coding-agent";
import { deadline, Engine, Gone } from "./engine.ts";

const NAME = "prunewise";
const DEFAULT_RESERVE = 16384; // as in pi
const ROLL_CALL = "prunewise:roll-call";
const INSTALLED_TWICE =
	"prunewise: it is installed twice, and one of the two does nothing. " +
	"`prunewise pi doctor` says where they are, `prunewise pi uninstall`, with or without --project, removes one.";
const RECALL = "recall";
const RECALL_DESCRIPTION =
	"Get back the full tool output that a marker of the form [prunewise: ...] stands for. " +
	"Give the reference that the marker names. Long outputs come shortened; " +
	"add :full to the reference for all of it.";
const VIRTUAL: string = "pi-virtual"; // the api of a model that pi routes to another

/** What the installer knows: the interpreter, and which half is on where no settings file says. */
export interface Options {
	python?: string;
	strategies?: boolean;
	masking?: boolean;
}

type Message = ContextEvent["messages"][number];
type Block = { type?: string; [field: string]: unknown };
type Severity = "info" | "warning" | "error";
type PartEdit = [part: number, kind: string, value: unknown, keepImages: boolean];
type Custom = { customType: string; data: unknown };

/** One message of the conversation. Without a `digest` the entry `id` holds exactly this. */
interface Line {
	key: string;
	id: string | null;
	digest?: string;
}

interface Conversation {
	lines: Line[];
	messages: Message[];
}

type Action =
	| { type: "say"; text: string; level: Severity }
	| { type: "select"; title: string; options: string[] }
	| { type: "confirm"; title: string; message: string }
	| { type: "input"; title: string; placeholder: string }
	| { type: "append"; entries: Custom[] };

interface Answer {
	token?: number;
	resync?: "keys" | "contents";
	edits?: [position: number, parts: PartEdit[]][];
	entries?: Custom[];
	notes?: { key: string; text: string; level: Severity }[];
	status?: string;
	carried?: { engaged: boolean };
	cancel?: boolean;
	dialog?: number;
	action?: Action;
}

export function prunewise(options: Options = {}): (pi: ExtensionAPI) => void {
	return (pi) => {
		if (!first(pi)) return;
		let engine: Engine | undefined;
		let context: ExtensionContext | undefined;
		let carried: { engaged: boolean } | undefined;
		let told = new Set<string>();
		let failed: "engine" | "session" | undefined;
		let shown: string | undefined;
		// what the engine holds: the lines that its last token stands for, and the edits it has asked for
		let base: { generation: number; token: number; lines: Line[] } | undefined;
		const edits = new Map<number, PartEdit[]>();
		let sentEntries = 0;
		let compacted = false;
		// what has really gone out: with the edits of which answer, and which requests without any since
		let applied: { generation: number; token?: number } | undefined;
		let whole: string[] = [];
		let unwritten: string | undefined;
		let stoodDown: string | undefined; // why nothing is done in this pi

		// ---------------------------------------------------------------- the session

		pi.on("session_start", (_event, ctx) => {
			context = ctx;
			carried = undefined;
			told = new Set();
			failed = undefined;
			compacted = false;
			applied = undefined;
			whole = [];
			forget();
			stoodDown = undefined;
			const owner = recallOf();
			if (owner !== undefined) {
				stoodDown = `another extension has a tool ${RECALL} too (${owner}): have one of the two only`;
				say(ctx, `prunewise: requests go out unpruned, since ${stoodDown}.`, "warning");
				return;
			}
			if (!hasRecall()) registerRecall();
			const others = otherOwners();
			if (others.length) {
				const both = "prunes too, or has commands of the same names: have one of the two only";
				say(ctx, `prunewise: ${others.join(", ")} ${both}. \`prunewise pi doctor\` says more.`, "warning");
			}
			engine = new Engine(options.python, greeting);
			try {
				engine.ensure(); // not waited for
			} catch (error) {
				complain(error);
			}
		});

		pi.on("session_shutdown", async (_event, ctx) => {
			show(undefined, ctx);
			await engine?.stop();
			engine = undefined;
		});

		function greeting(): object {
			const ctx = context as ExtensionContext;
			const session = ctx.sessionManager;
			return {
				cwd: ctx.cwd,
				header: session.getHeader() ?? {},
				sessionFile: session.getSessionFile() ?? null,
				leaf: session.getLeafId(),
				trusted: ctx.isProjectTrusted(),
				...asked(ctx),
				halves: { strategies: options.strategies ?? true, masking: options.masking ?? true },
				...(carried ? { carried } : {}),
			};
		}

		// ---------------------------------------------------------------- requests

		pi.on("context", async (event, ctx) => {
			if (stoodDown) return undefined;
			if (!told.has(RECALL) && hasNewRecall(ctx)) {
				told.add(RECALL);
				const cost = "so that this request finds nothing in the cache, this once";
				say(ctx, `prunewise: this session has the tool ${RECALL} and a line on it in the prompt from now on, ${cost}.`, "info");
			}
			const now = conversation(ctx, event.messages);
			const request = nameOf(now.lines);
			whole = whole.filter((one) => one !== request);
			// Where nothing can be written, what is written already goes out once more.
			const answer = (await ask("context", ctx, now)) ?? (unwritten && (await ask("context", ctx, now)));
			unwritten = undefined;
			if (!answer) {
				if (!ctx.signal?.aborted) whole.push(request);
				return undefined;
			}
			for (const [position, parts] of answer.edits ?? []) {
				if (parts.length) edits.set(position, parts);
				else edits.delete(position);
			}
			applied = base;
			if (!edits.size) return undefined;
			const messages = event.messages.slice();
			for (const [position, parts] of edits) messages[position] = edited(messages[position], parts);
			return { messages };
		});

		pi.on("session_before_compact", async (event, ctx) => {
			if (stoodDown || event.reason !== "threshold") return undefined;
			const answer = await ask("compaction", ctx, conversation(ctx));
			if (!answer) return undefined; // without an answer pi compacts
			return answer.cancel ? { cancel: true } : undefined;
		});

		pi.on("session_compact", () => {
			compacted = true; // the next view tells
		});

		/** Ask with the conversation as it is now; undefined, and said, where there is no answer in time. */
		async function ask(method: string, ctx: ExtensionContext, now: Conversation) {
			try {
				return await exchange(method, ctx, now);
			} catch (error) {
				if (!ctx.signal?.aborted) complain(error);
				return undefined;
			}
		}

		/** The same, but it throws where there is no answer, or where what it stands on cannot be written. */
		async function exchange(method: string, ctx: ExtensionContext, now: Conversation, more: object = {}) {
			const until = Date.now() + deadline();
			context = ctx;
			try {
				const engine = running();
				let contents = false;
				for (let attempt = 0; attempt < 3; attempt++) {
					engine.ensure();
					const generation = engine.generation;
					const { keep, view } = difference(ctx, now, generation, contents);
					const params = { ...more, view };
					const milliseconds = Math.max(until - Date.now(), 1);
					const answer = await engine.call<Answer>(method, params, milliseconds, ctx.signal).catch((error) => {
						if (error instanceof Gone && attempt === 0) return undefined; // another one may do
						throw error;
					});
					if (!answer) continue;
					if (answer.resync) {
						forget();
						contents = answer.resync === "contents";
						continue;
					}
					if (answer.token !== undefined) base = { generation, token: answer.token, lines: now.lines };
					for (const position of edits.keys()) if (position >= keep) edits.delete(position);
					append(answer.entries ?? []);
					if (view.compacted) compacted = false; // and not one that has run meanwhile
					whole = whole.filter((one) => !view.whole.includes(one));
					tell(answer, ctx);
					return answer;
				}
				throw new Error("the engine and pi do not agree on the conversation");
			} catch (error) {
				forget();
				throw error;
			}
		}

		function running(): Engine {
			if (!engine) throw new Error(stoodDown ?? "the session is over");
			return engine;
		}

		function forget(): void {
			base = undefined;
			sentEntries = 0;
		}

		/** What has changed since the engine was last told. */
		function difference(ctx: ExtensionContext, now: Conversation, generation: number, contents: boolean) {
			if (base?.generation !== generation) forget();
			const known = base?.lines ?? [];
			const { lines, messages } = now;
			let keep = 0;
			while (keep < known.length && keep < lines.length && same(known[keep], lines[keep])) keep++;
			const session = ctx.sessionManager;
			return {
				keep,
				view: {
					base: base?.token ?? null,
					keep,
					leaf: session.getLeafId(),
					messages: lines
						.slice(keep)
						.map((line, at) => (line.digest || contents ? [line.id, messages[keep + at]] : [line.id])),
					...(session.getSessionFile() ? {} : { entries: newEntries(ctx) }),
					...limits(ctx),
					...asked(ctx),
					tools: offered(),
					compacted,
					applied: applied?.generation === generation ? applied.token : null,
					whole,
					unwritten,
				},
			};
		}

		/** The model that is to answer, and what pi says that it costs. */
		function asked(ctx: ExtensionContext) {
			if (!ctx.model) return {};
			const { provider, id, api, cost } = ctx.model;
			return { asked: { provider, id, api, cost } };
		}

		/** The entries of a session without a file that the engine has not seen. */
		function newEntries(ctx: ExtensionContext): SessionEntry[] {
			const entries = ctx.sessionManager.getEntries();
			const fresh = entries.slice(sentEntries);
			sentEntries = entries.length;
			return fresh;
		}

		/** The window and the reserve that pi's own compaction goes by. */
		function limits(ctx: ExtensionContext) {
			const model = ctx.model;
			const name = model && `${model.provider}/${model.id}`;
			const compaction = pi.getSettings().compaction;
			const own = name === undefined ? undefined : compaction?.modelOverrides?.[name]?.reserveTokens;
			// A virtual model has no window of its own: pi says what it goes by, for which it looks at the session.
			const window = model?.api === VIRTUAL ? ctx.getContextUsage()?.contextWindow : model?.contextWindow;
			return {
				window: window || null,
				reserve: own ?? compaction?.reserveTokens ?? DEFAULT_RESERVE,
			};
		}

		/** Add entries to the session: all of them, or what they stand for does not hold. */
		function append(entries: Custom[]): void {
			try {
				for (const entry of entries) pi.appendEntry(entry.customType, entry.data);
			} catch (error) {
				unwritten = reason(error);
				throw error;
			}
			if (failed === "engine" || (failed && entries.length)) {
				failed = undefined;
				if (context) say(context, "prunewise: requests are pruned again.", "info");
			}
		}

		// ---------------------------------------------------------------- telling

		function tell(answer: Answer, ctx: ExtensionContext): void {
			if (answer.carried) carried = answer.carried;
			show(answer.status, ctx);
			for (const note of answer.notes ?? []) {
				if (told.has(note.key)) continue;
				told.add(note.key);
				say(ctx, note.text, note.level);
			}
		}

		/** Say once a session that requests go out unpruned, and why. */
		function complain(error: unknown): void {
			if (failed || !context) return;
			failed = unwritten ? "session" : "engine";
			const advice = "Run `prunewise pi doctor` to find out more.";
			say(context, `prunewise: requests go out unpruned for now: ${reason(error)}. ${advice}`, "warning");
			show(undefined, context);
		}

		function show(status: string | undefined, ctx: ExtensionContext): void {
			if (status !== shown) ctx.ui.setStatus(NAME, status);
			shown = status;
		}

		// ---------------------------------------------------------------- recall

		/** The tools that the model is offered; another extension's `recall` is none that a marker can name. */
		function offered(): string {
			const names = pi.getActiveTools();
			return names.filter((name) => name !== RECALL || recallOf() === undefined).join(" ");
		}

		/** Where a tool `recall` comes from that is not this one; undefined where there is none. */
		function recallOf(): string | undefined {
			const tool = pi.getAllTools().find(({ name }) => name === RECALL);
			return tool && tool.description !== RECALL_DESCRIPTION ? tool.sourceInfo.path : undefined;
		}

		function hasRecall(): boolean {
			return pi.getAllTools().some(({ name }) => name === RECALL);
		}

		// Only once all extensions are loaded: pi does not start with two tools of one name.
		const registerRecall = () => pi.registerTool({
			name: RECALL,
			label: "Recall",
			description: RECALL_DESCRIPTION,
			promptSnippet: "Get back a tool output that was left out, by the reference in its marker",
			parameters: {
				type: "object",
				properties: {
					ref: { type: "string", description: "The marker's reference, such as #412 or #412:full" },
				},
				required: ["ref"],
				additionalProperties: false,
			} as never,
			async execute(_id, params, _signal, _onUpdate, ctx) {
				const { ref } = params as { ref: string };
				const recalled = await recall(ref, ctx).catch((error) => {
					if (error instanceof Gone) return recall(ref, ctx); // another one reads the session too
					throw error;
				});
				return { content: recalled.content, details: { ref } };
			},
		});

		async function recall(ref: string, ctx: ExtensionContext) {
			const engine = running();
			context = ctx;
			engine.ensure();
			if (base?.generation !== engine.generation) forget();
			const entries = ctx.sessionManager.getSessionFile() ? [] : newEntries(ctx);
			try {
				return await engine.call<{ content: [] }>("recall", { ref, entries });
			} catch (error) {
				if (entries.length) forget(); // it may not have got them
				throw error;
			}
		}

		// ---------------------------------------------------------------- commands

		const commands = {
			pruning: "Settings and state of the pruning in front of compaction",
			prune: "Prune tool outputs by hand, or restore them",
			"context-pruning": "Status and control of context pruning",
		};
		for (const [name, description] of Object.entries(commands)) {
			pi.registerCommand(name, {
				description,
				getArgumentCompletions: (prefix) => {
					const all = engine?.welcome?.completions[name] ?? [];
					if (all.includes(prefix)) return null; // the next Enter is to run it
					const fitting = all.filter((one) => one.startsWith(prefix));
					return fitting.length ? fitting.map((one) => ({ value: one, label: one })) : null;
				},
				handler: (args, ctx) => converse(name, args, ctx),
			});
		}

		// pi gives commands that two extensions have other names; what is typed would go to the model.
		pi.on("input", (event, ctx) => {
			const name = /^\/(\S+)/.exec(event.text)?.[1] ?? "";
			if (!Object.hasOwn(commands, name)) return undefined;
			const all = pi.getCommands();
			if (all.some((one) => one.name === name)) return undefined;
			const named = all.filter((one) => isNamed(one.name, name));
			const list = named.map((one) => `/${one.name} (${one.sourceInfo.path})`).join(" or ");
			say(ctx, `prunewise: there are two commands /${name}: give ${list}.`, "warning");
			return { action: "handled" };
		});

		/** Where other extensions with commands of these names come from. */
		function otherOwners(): string[] {
			const others = pi
				.getCommands()
				.filter((one) => one.source === "extension")
				.filter((one) => Object.entries(commands).some(
					([name, description]) => isNamed(one.name, name) && one.description !== description,
				));
			return [...new Set(others.map((one) => one.sourceInfo.path))];
		}

		/** Run a command: the engine says step by step what to show and what to ask. */
		async function converse(name: string, args: string, ctx: ExtensionCommandContext): Promise<void> {
			try {
				const usage = ctx.getContextUsage() ?? null;
				let answer = await exchange("command", ctx, conversation(ctx), { name, args, ui: ctx.hasUI, usage });
				while (answer.action) {
					const value = await perform(answer.action, ctx);
					answer = await running().call<Answer>("answer", { dialog: answer.dialog, value });
				}
				tell(answer, ctx);
			} catch (error) {
				say(ctx, `prunewise: /${name} has not been carried out: ${reason(error)}`, "error");
			}
		}

		async function perform(action: Action, ctx: ExtensionContext): Promise<unknown> {
			switch (action.type) {
				case "say":
					if (ctx.hasUI) ctx.ui.notify(action.text, action.level);
					else if (ctx.mode === "print") writeSync(1, `${action.text}\n`);
					else process.stderr.write(`${action.text}\n`);
					return null;
				case "select":
					return (await ctx.ui.select(action.title, action.options)) ?? null;
				case "confirm":
					return await ctx.ui.confirm(action.title, action.message);
				case "input":
					return (await ctx.ui.input(action.title, action.placeholder)) ?? null;
				case "append":
					try {
						for (const entry of action.entries) pi.appendEntry(entry.customType, entry.data);
						return null;
					} catch (error) {
						return reason(error);
					}
			}
		}
	};
}

export default prunewise();

/** Whether the tool has come into the conversation since the last answer in it. */
function hasNewRecall(ctx: ExtensionContext): boolean {
	let found = false;
	for (const entry of ctx.sessionManager.getBranch().reverse()) {
		if (entry.type !== "message") continue;
		if (entry.message.role === "assistant") return found;
		if (entry.message.role === "system") found ||= !!entry.message.toolsAdded?.some(({ name }) => name === RECALL);
	}
	return false;
}

/** Whether this is the command's name, or one that pi has made of it. */
function isNamed(name: string, command: string): boolean {
	return name === command || name.startsWith(`${command}:`);
}

/** Whether no other one of us is loaded; else this one only says so: two would prune what the other has pruned. */
function first(pi: ExtensionAPI): boolean {
	const roll = { others: 0 };
	pi.events.emit(ROLL_CALL, roll);
	if (roll.others) {
		pi.on("session_start", (_event, ctx) => say(ctx, INSTALLED_TWICE, "warning"));
		return false;
	}
	pi.events.on(ROLL_CALL, (asked) => {
		(asked as typeof roll).others++;
	});
	return true;
}

function reason(error: unknown): string {
	return error instanceof Error ? error.message : String(error);
}

function say(ctx: ExtensionContext, text: string, level: Severity): void {
	if (ctx.hasUI) ctx.ui.notify(text, level);
	else if (level !== "info") process.stderr.write(`${text}\n`);
}

// ---------------------------------------------------------------- messages

/** The lines of messages that entries hold. They are made once: entries never change. */
const stored = new WeakMap<Message, Line>();

function lineOf(entry: SessionEntry, message: Message): Line {
	const known = stored.get(message);
	if (known?.id === entry.id) return known;
	const own = entry.type === "message" && entry.message === message;
	const line = { key: entry.id, id: entry.id, ...(own ? {} : { digest: digest(message) }) };
	if (own) stored.set(message, line);
	return line;
}

/** The messages as pi is about to send them, and the entries that they come from. */
function conversation(ctx: ExtensionContext, messages?: Message[]): Conversation {
	const own: Message[] = [];
	const lines: Line[] = [];
	for (const { sourceEntry, messages } of ctx.sessionManager.buildSessionProjection().entries) {
		for (const message of messages) {
			if (message.role === "system") continue;
			own.push(message);
			lines.push(lineOf(sourceEntry, message));
		}
	}
	if (!messages) return { lines, messages: own };
	if (messages.length === own.length && messages.every((message, at) => alike(message, own[at]))) {
		return { lines: messages.map((message, at) => matched(message, own[at], lines[at])), messages };
	}
	// Another extension has added or removed messages: each is looked for on its own.
	const waiting = new Map<string, number[]>();
	for (const [at, message] of own.entries()) {
		const name = identity(message);
		waiting.set(name, [...(waiting.get(name) ?? []), at]);
	}
	const found = messages.map((message) => {
		const name = identity(message);
		const at = waiting.get(name)?.shift();
		if (at !== undefined) return matched(message, own[at], lines[at]);
		return { key: `?${name}`, id: null, digest: digest(message) };
	});
	return { lines: found, messages };
}

/** What the engine calls a request: the id of its last message. */
function nameOf(lines: Line[]): string {
	return lines.at(-1)?.id ?? `?${lines.length - 1}`;
}

/** The line of a message that comes from the entry of `line`; another extension may have rewritten it. */
function matched(message: Message, own: Message, line: Line): Line {
	return equal(message, own) ? line : { ...line, digest: digest(message) };
}

function same(one: Line, other: Line): boolean {
	return one.key === other.key && one.digest === other.digest;
}

function alike(one: Message, other: Message): boolean {
	return (
		one.role === other.role &&
		one.timestamp === other.timestamp &&
		(one.role !== "toolResult" || one.toolCallId === (other as typeof one).toolCallId)
	);
}

function identity(message: Message): string {
	return `${message.role}:${message.timestamp}:${message.role === "toolResult" ? message.toolCallId : ""}`;
}

/** Whether two messages have the same content. Texts that are equal cost little to compare, long ones too. */
function equal(message: Message, own: Message): boolean {
	const { content, output, summary } = message as Loose;
	const { content: mine, output: myOutput, summary: mySummary } = own as Loose;
	if (!Array.isArray(content) || !Array.isArray(mine)) {
		return content === mine && output === myOutput && summary === mySummary;
	}
	return content.length === mine.length && content.every((block, at) => equalBlocks(block, mine[at]));
}

type Loose = { content?: unknown; output?: unknown; summary?: unknown };

function equalBlocks(block: Block, own: Block): boolean {
	return (
		block.type === own.type &&
		block.text === own.text &&
		block.thinking === own.thinking &&
		block.data === own.data &&
		block.name === own.name &&
		(block.type !== "toolCall" || isDeepStrictEqual(block.arguments, own.arguments))
	);
}

/** Stands for the content of a message that no entry holds as it is. */
function digest(message: Message): string {
	return createHash("sha1").update(JSON.stringify(message)).digest("base64");
}

/** A copy of the message with its edits in place; every part that they do not name is the same object. */
function edited(message: Message, parts: PartEdit[]): Message {
	const copy = { ...message } as Record<string, unknown>;
	for (const [part, kind, value, keepImages] of parts) {
		const content = copy.content;
		const blocks: Block[] = Array.isArray(content) ? content : [];
		if (kind === "tool_result_content" && copy.role === "toolResult") {
			const images = keepImages ? blocks.filter((block) => block?.type === "image") : [];
			copy.content = [{ type: "text", text: value }, ...images];
		} else if (kind === "shell_output" && copy.role === "bashExecution") {
			copy.output = value;
		} else if (kind === "tool_call_input" && blocks[part]?.type === "toolCall") {
			copy.content = blocks.map((block, at) => (at === part ? { ...block, arguments: value } : block));
		}
	}
	return copy as unknown as Message;
}
