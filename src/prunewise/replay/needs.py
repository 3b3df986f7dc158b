"""What a recorded session turned out to need: where the agent used something, and which text held it.

A need depends on the session alone, never on a policy or a marker. It says that at one LLM call the
agent wrote down something that stood, until then, only in text that pruning may remove, and where
that was. Whether a policy had removed it by then is for `loss` to say. docs/explanation/information-loss.md
has the definitions with their reasons.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Literal, NamedTuple, cast

import msgspec

from prunewise import tools
from prunewise.recording import Epoch, LLMCall
from prunewise.tools import FileOperation, Vocabulary
from prunewise.transcript import (
    SHELL_OUTPUT,
    TOOL_INPUT,
    TOOL_RESULT,
    Kind,
    Message,
    Part,
    Shell,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
)

NeedKind = Literal["page-fault", "edit-regret", "unique-reference"]
KINDS: tuple[NeedKind, ...] = ("page-fault", "edit-regret", "unique-reference")
"""In the order in which they are listed within one answer, and in which recalls are put down to them."""

REFERENCE_LENGTH = 6
"""The shortest reference that counts, in characters."""
LINE_LENGTH = 12
"""The shortest line of an edit's old text that counts by itself, in characters."""
_LONGEST_WORD = 80
"""Longer runs of letters and digits are encoded data."""


class Place(NamedTuple):
    """A part of an epoch's message that pruning may remove: a result, a call's input, a shell output."""

    position: int
    part: int
    kind: Kind


class Need(msgspec.Struct, frozen=True, gc=False):
    """One use, by the agent, of something that only removable text held until then."""

    kind: NeedKind
    call: int
    """The LLM call whose answer it is in, counted from 0 within the epoch."""
    key: str
    """What was used: a file's path, a line of an edit's old text, a reference."""
    message: int
    """The position of the answer."""
    part: int
    """The part of the answer that uses it (the first that does)."""
    places: tuple[Place, ...]
    """Where the epoch holds it, in order; the needs of one key share them."""
    count: int
    """How many of the places came before the answer."""

    @property
    def sources(self) -> tuple[Place, ...]:
        """Everything that held it before the answer. There is at least one."""
        return self.places[: self.count]


# --------------------------------------------------------------- references

_CHUNK = re.compile(rf"[A-Za-z0-9_./@+-]{{{REFERENCE_LENGTH},}}")
_NO_WORD = re.compile(r"[^A-Za-z0-9_]+")
_HASH = re.compile(r"(?=[a-f]*[0-9])(?=[0-9]*[a-f])[0-9a-f]{7,64}")
_HASH_LENGTH = 7
_FILE = re.compile(r"([^/]+/[^/]*[A-Za-z0-9_-]\.[A-Za-z][A-Za-z0-9]{0,5})\.?")
_ESCAPES = ("\\n", "\\r", "\\t")


def references(text: str) -> set[str]:
    """All that has the form of a reference in a text, rare or not.

    A reference is a word of at least 6 letters, digits and underscores that is no ordinary word: it
    has an underscore inside, a digit, or capitals inside beside small letters; a number of at least 6
    digits; the first 7 digits of a hexadecimal hash; or the last two names of a path to a file with an
    extension.
    """
    found: set[str] = set()
    for chunk in set(_CHUNK.findall(_unescaped(text))):
        found.update(_references_of(chunk))
    return found


def rare_in(groups: Mapping[str, int], most: int = 2) -> Callable[[str], bool]:
    """A test for rare references by a table: for each reference, how many repositories (or sessions) have it.

    Args:
        groups: the table; a reference that is not in it is rare.
        most: how many may have it.
    """

    def rare(reference: str) -> bool:
        return groups.get(reference, 0) <= most

    return rare


def uncommon(reference: str) -> bool:
    """The test for rare references where there is no table: the shipped words of the trade are not rare."""
    return reference not in _COMMON


def _references_of(chunk: str) -> tuple[str, ...]:
    """The references in a run of characters without a gap."""
    found = [_shortened(word) for word in _NO_WORD.split(chunk) if _is_reference(word)]
    if "/" in chunk:
        file = _FILE.fullmatch("/".join(chunk.rsplit("/", 2)[-2:]))
        if file is not None:
            found.append(file[1])
    return tuple(found)


def _is_reference(word: str) -> bool:
    core = word.strip("_")
    if not REFERENCE_LENGTH <= len(core) <= _LONGEST_WORD:
        return False
    if "_" in core or not core.isalpha():
        return True
    return not (core.islower() or core.isupper() or core[1:].islower())


def _shortened(word: str) -> str:
    """A hash by its first digits, as far as people write it; any other word as it is."""
    return word[:_HASH_LENGTH] if _HASH.fullmatch(word) else word


def _unescaped(text: str) -> str:
    """Escaped line ends and tabs, as JSON within an output has them, are white space."""
    if "\\" in text:
        for escape in _ESCAPES:
            text = text.replace(escape, "\n")
    return text


# --------------------------------------------------------------- old texts of edits

_OLD_TEXT = frozenset({"old_string", "oldString", "oldText", "old_text", "old_str"})
"""What edit tools call the text to be replaced."""
_PATCH = "*** Begin Patch"
_SEARCH = re.compile(r"^<{5,9} SEARCH\b[^\n]*\n(.*?)^={5,9}$", re.MULTILINE | re.DOTALL)


def old_lines(arguments: Mapping[str, Any]) -> list[str]:
    """The lines of text that an edit says the file holds, trimmed.

    Each line of at least 12 characters; of an old text without such a line, its longest where that has
    at least 6. Edits are known by what they carry, not by their tool: an old text by its argument's
    name, a patch in the form of `apply_patch`, a search block.
    """
    found: dict[str, None] = {}
    for old in _old_texts(arguments):
        lines = [line.strip() for line in _unescaped(old).split("\n")]
        long = [line for line in lines if len(line) >= LINE_LENGTH]
        if not long:
            longest = max(lines, key=len)
            long = [longest] if len(longest) >= REFERENCE_LENGTH else []
        found.update(dict.fromkeys(long))
    return list(found)


def _old_texts(value: object, name: str = "") -> Iterator[str]:
    if isinstance(value, str):
        if name in _OLD_TEXT:
            yield value
        elif _PATCH in value:
            yield "\n".join(_patched(value))
        elif "<<< SEARCH" in value:
            yield from _SEARCH.findall(value)
    elif isinstance(value, Mapping):
        for key, inner in cast("Mapping[str, object]", value).items():
            yield from _old_texts(inner, key)
    elif isinstance(value, list):
        for inner in cast("list[object]", value):
            yield from _old_texts(inner, name)


def _patched(patch: str) -> Iterator[str]:
    """The lines that a patch expects: what it takes out, and what stands around it."""
    inside = False
    for line in patch.split("\n"):
        if line.startswith("*** "):
            inside = line.startswith("*** Update File")
        elif inside and line.startswith((" ", "-")):
            yield line[1:]


class Lines:
    """Finds lines in texts, whatever stands before them: white space, a line number, a file's name, the
    time, the sign of a diff. A text shows a line when one of its own ends with it.
    """

    __slots__ = ("_short", "_tails")

    def __init__(self, wanted: Iterable[str]) -> None:
        self._tails: dict[str, list[str]] = {}
        self._short: dict[str, list[str]] = {}
        for line in sorted(set(wanted)):
            tails, length = (
                (self._tails, LINE_LENGTH) if len(line) >= LINE_LENGTH else (self._short, REFERENCE_LENGTH)
            )
            tails.setdefault(line[-length:], []).append(line)

    def __bool__(self) -> bool:
        return bool(self._tails or self._short)

    def shown_by(self, text: str) -> set[str]:
        """Those of the lines that a text shows."""
        found: set[str] = set()
        tails, short = self._tails, self._short
        for line in _unescaped(text).split("\n"):
            line = line.rstrip()  # noqa: PLW2901
            candidates = tails.get(line[-LINE_LENGTH:])
            if candidates is not None:
                found.update(wanted for wanted in candidates if line.endswith(wanted))
            if short:
                candidates = short.get(line[-REFERENCE_LENGTH:])
                if candidates is not None:
                    found.update(wanted for wanted in candidates if line.endswith(wanted))
        return found


# --------------------------------------------------------------- the pass


def need_events(
    epoch: Epoch, vocabulary: Vocabulary, rare: Callable[[str], bool] = uncommon, *, cwd: str | None = None
) -> tuple[Need, ...]:
    """Every need of an epoch, in the order of its answers.

    - `page-fault`: a write to, or an edit of, a file that was read since its last change. The sources
      are the results of those reads (or the input of the write that made it). A read that the session
      made again is one more source, and no need: it was paid for anyway.
    - `edit-regret`: a line of an edit's old text. The sources are all places that show this line.
    - `unique-reference`: a rare reference in an answer's text, thinking or arguments. The sources are
      all places that hold it.

    There is no need for what text that always stays has shown before: what the user, the system or the
    host wrote, and the agent's own text and thinking. What the agent wrote into the input of a call is a
    source like any other, since an input can be pruned too.

    Takes time in proportion to the epoch's text. An answer that failed, or is not recorded, uses nothing.

    Args:
        epoch: the messages and LLM calls.
        vocabulary: which tools read and change files.
        rare: whether a reference is rare enough that its use points at where it stood.
        cwd: the directory that relative paths are resolved against.
    """
    return _Pass(epoch, vocabulary, rare, cwd).needs()


class _Use(NamedTuple):
    """What one part of an answer uses."""

    part: int
    references: list[str]
    lines: list[str]
    operation: FileOperation | None


class _Asked(NamedTuple):
    """The head of a need: the same fields, in the same order."""

    kind: NeedKind
    call: int
    key: str
    message: int
    part: int


class _Pass:
    """One walk through an epoch, with an index from keys to the places seen so far."""

    def __init__(
        self, epoch: Epoch, vocabulary: Vocabulary, rare: Callable[[str], bool], cwd: str | None
    ) -> None:
        self._epoch = epoch
        self._vocabulary = vocabulary
        self._cwd = cwd
        self._uses = [self._uses_of(call, rare) for call in epoch.calls]
        uses = [use for answer in self._uses for use in answer]
        self._references = {reference for use in uses for reference in use.references}
        self._lines = Lines(line for use in uses for line in use.lines)
        self._chunks: dict[str, tuple[str, ...]] = {}
        self._holding: dict[NeedKind, dict[str, list[Place] | None]] = {
            "edit-regret": {},
            "unique-reference": {},
        }
        """Where each key stands; None once text that always stays has shown it."""
        self._pages: dict[str, list[Place]] = {}
        """For each path, what has shown the file as it is."""
        self._open: dict[str, tuple[FileOperation, Place]] = {}
        self._found: list[tuple[_Asked, list[Place], int]] = []

    def needs(self) -> tuple[Need, ...]:
        """Walk, and finish what was found."""
        read = 0
        for number, call in enumerate(self._epoch.calls):
            for position in range(read, call.position):
                self._take(position)
            self._ask(number, call.position)
            read = call.position
        shared: dict[int, tuple[Place, ...]] = {}
        made: list[Need] = []
        for asked, places, count in self._found:
            frozen = shared.get(id(places))
            if frozen is None:
                frozen = shared[id(places)] = tuple(places)
            made.append(Need(*asked, frozen, count))
        return tuple(made)

    def _uses_of(self, call: LLMCall, rare: Callable[[str], bool]) -> list[_Use]:
        if call.failed or call.position >= len(self._epoch.messages):
            return []
        uses: list[_Use] = []
        for index, part in enumerate(self._epoch.messages[call.position].parts):
            text = _written(part)
            if text is None:
                continue
            found = sorted(reference for reference in references(text) if rare(reference))
            if type(part) is ToolCall:
                uses.append(_Use(index, found, old_lines(part.arguments), self._change(part)))
            elif found:
                uses.append(_Use(index, found, [], None))
        return uses

    def _change(self, call: ToolCall) -> FileOperation | None:
        """The operation, where the call changes a file."""
        operation = tools.file_operation(self._vocabulary, call.name, call.arguments, self._cwd)
        return operation if operation is not None and operation.action != "read" else None

    def _ask(self, number: int, position: int) -> None:
        """What an answer uses, against all that came before it."""
        uses = self._uses[number]
        for use in uses:
            if use.operation is not None:
                path = use.operation.path
                self._note(_Asked("page-fault", number, path, position, use.part), self._pages.get(path))
        for kind in ("edit-regret", "unique-reference"):
            holding = self._holding[kind]
            asked: set[str] = set()
            for use in uses:
                for key in use.lines if kind == "edit-regret" else use.references:
                    if key not in asked:
                        asked.add(key)
                        self._note(_Asked(kind, number, key, position, use.part), holding.get(key))

    def _note(self, asked: _Asked, places: list[Place] | None) -> None:
        if places:
            self._found.append((asked, places, len(places)))

    def _take(self, position: int) -> None:
        """One message comes into view."""
        message: Message = self._epoch.messages[position]
        for index, part in enumerate(message.parts):
            match part:
                case Text() | Thinking():
                    self._show(part.text, None)
                case ToolCall():
                    place = Place(position, index, TOOL_INPUT)
                    self._show(_strings(part.arguments), place)
                    operation = tools.file_operation(self._vocabulary, part.name, part.arguments, self._cwd)
                    if operation is not None:
                        self._open[part.id] = operation, place
                case ToolResult():
                    place = Place(position, index, TOOL_RESULT)
                    self._show(part.text, place)
                    self._operated(part, place)
                case Shell() if part.sent:
                    self._show(part.command, None)
                    self._show(part.output, Place(position, index, SHELL_OUTPUT))
                case _:
                    pass

    def _operated(self, result: ToolResult, place: Place) -> None:
        """What a finished call says of the pages of its file."""
        operation, called = self._open.pop(result.call_id, (None, place))
        if operation is None or result.is_error:
            return
        if operation.action == "write":
            self._pages[operation.path] = [called]
        elif operation.action == "edit":
            self._pages.pop(operation.path, None)
        elif result.has_text and not result.text.startswith(self._vocabulary.unchanged_stubs or ("\0",)):
            self._pages.setdefault(operation.path, []).append(place)

    def _show(self, text: str, place: Place | None) -> None:
        """A text comes into view: at a place that may be pruned, or (None) for good."""
        if self._lines:
            self._hold("edit-regret", self._lines.shown_by(text), place)
        if self._references:
            found: set[str] = set()
            for chunk in set(_CHUNK.findall(_unescaped(text))):
                wanted = self._chunks.get(chunk)
                if wanted is None:
                    wanted = tuple(one for one in _references_of(chunk) if one in self._references)
                    self._chunks[chunk] = wanted
                if wanted:
                    found.update(wanted)
            self._hold("unique-reference", found, place)

    def _hold(self, kind: NeedKind, keys: Iterable[str], place: Place | None) -> None:
        holding = self._holding[kind]
        for key in keys:
            if place is None:
                holding[key] = None
                continue
            places = holding.setdefault(key, [])
            if places is not None:
                places.append(place)


def _written(part: Part) -> str | None:
    """What the agent wrote in a part of an answer."""
    match part:
        case Text() | Thinking():
            return part.text
        case ToolCall():
            return _strings(part.arguments)
        case _:
            return None


def _strings(value: object) -> str:
    """All texts and numbers among arguments, each on lines of its own."""
    return "\n".join(_leaves(value))


def _leaves(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for inner in cast("Mapping[str, object]", value).values():
            yield from _leaves(inner)
    elif isinstance(value, list):
        for inner in cast("list[object]", value):
            yield from _leaves(inner)
    elif isinstance(value, (int, float)) and not isinstance(value, bool):
        yield str(value)


# --------------------------------------------------------------- listing

_SHOWN = 80
"""How much of a key is listed, in characters."""


def describe(need: Need, epoch: Epoch) -> dict[str, Any]:
    """A need as a row of a listing: the same for the same session, whatever the policy.

    `call` counts the epoch's LLM calls from 0, `message` is the answer's id, `part` the part of it,
    `sources` says how many places held the key and `newest` where the last of them is.
    """
    newest = need.places[need.count - 1]
    return {
        "call": need.call,
        "kind": need.kind,
        "message": epoch.messages[need.message].id,
        "part": need.part,
        "key": need.key if len(need.key) <= _SHOWN else need.key[: _SHOWN - 1] + "…",
        "sources": need.count,
        "newest": {"message": epoch.messages[newest.position].id, "part": newest.part, "kind": newest.kind},
    }


_COMMON = frozenset(
    """
    ../package.json ../README.md ../tsconfig.json .claude/settings.json .claude/settings.local.json
    .gemini/settings.json .github/dependabot.yml .vscode/settings.json 000000 0000000 00000000 040000
    100000 1000000 10000000 100000000 1000000000 100644 100755 100_000 1048576 120000 123456 1234567
    12345678 123456789 1234567890 131072 160000 1_000_000 200000 200_000 262144 300000 3600000 500000
    50_000 524288 600000 86400000 999999 a1b2c3d4 aarch64 abc123 abc1234 abcd1234 AbortController
    AbortError AbortSignal absolute_path absolutePath ACCESS_TOKEN access_token add_argument
    addEventListener afterAll afterEach allowJs and_then ANTHROPIC_API_KEY API_KEY api_key apiKey
    app/layout.tsx app/page.tsx AppData appendChild appendFile appendFileSync AppleWebKit ArgumentParser
    ArrayBuffer ArrayList as_completed as_dict as_mut as_ref as_str assertEqual assertFalse assertIn
    AssertionError assertIsNone assertIsNotNone assertRaises assertTrue AttributeError AWS_ACCESS_KEY_ID
    AWS_SECRET_ACCESS_KEY base32 base64 BASE_URL base_url BaseModel baseUrl basicConfig beforeAll
    beforeEach BitBucket BTreeMap BTreeSet BufferedReader BufferedWriter bug_report cached_property
    camelCase charAt charCodeAt ChatGPT child_process classList className ClassNotFoundException
    clearInterval clearTimeout client_id client_secret codePointAt CoffeeScript COMMIT_EDITMSG compareTo
    compilerOptions ConnectionError containsKey content_type contentType copyFileSync create_task
    createContext created_at createdAt createElement createReadStream createRoot createWriteStream
    currentTimeMillis dangerouslySetInnerHTML DATABASE_URL DataView decodeURIComponent DeepSeek def456
    default_factory default_value defaultProps defaultValue defineComponent defineConfig deleted_at
    deletedAt deny_unknown_fields DeprecationWarning devDependencies DevOps DevTools dispatchEvent
    display_name displayName dist/cli.js dist/index.d.ts dist/index.js docs/index.md docs/README.md
    dry_run duration_ms durationMs edit_file encodeURIComponent end_line end_time endLine endsWith endTime
    entrySet equalsIgnoreCase error_message errorMessage ES2015 ES2017 ES2018 ES2019 ES2020 ES2021 ES2022
    ES2023 esModuleInterop EvalError execFile execFileSync execPath execSync existsSync exit_code
    EXIT_FAILURE EXIT_SUCCESS exitCode FastAPI feature_request FETCH_HEAD file_name file_path file_size
    FileExistsError FileInputStream fileName FileNotFoundError FileOutputStream filePath FileReader
    fileSize fileURLToPath find_packages findIndex findLast finish_reason first_name firstName flatMap
    float32 Float32Array float64 Float64Array force_push forceConsistentCasingInFileNames forEach FormData
    forwardRef from_dict from_json from_str fromCharCode fromEntries GEMINI_API_KEY get_event_loop
    get_logger get_object_or_404 getClass getDate getElementById getElementsByClassName getFullYear
    getHours getInstance getLogger getMonth getName getOrDefault getServerSideProps getStaticProps getTime
    getValue GH_TOKEN GitHub GITHUB_TOKEN GitLab GraphQL hashCode HashMap HashSet HashTable hasOwnProperty
    HasPrefix HasSuffix IllegalArgumentException IllegalStateException ImportError in_progress IndexError
    indexOf innerHTML innerText input_tokens InputStream inputTokens install_requires int16_t int32_t
    Int32Array int64_t INT_MAX integration_tests into_iter IOError IOException IPv4Address IPv6Address
    is_active is_dir is_empty is_error is_file is_none is_some is_valid isActive isArray isEmpty isError
    isFinite isInteger ISO8601 ISO_8601 isolatedModules isSafeInteger ISSUE_TEMPLATE isValid iter_mut
    JavaScript kebab_case KeyboardInterrupt KeyError keySet LangChain LangGraph last_name lastIndexOf
    lastName lib/index.js line_count line_number lineCount lineNumber LinkedIn LinkedList list_files
    load_dotenv localeCompare localStorage lru_cache map_err matchAll MAX_INT max_length MAX_SAFE_INTEGER
    max_size max_tokens maxTokens merge_base MERGE_HEAD merge_request min_length MkdirAll mkdirSync
    mkdtempSync mockImplementation mockResolvedValue mockReturnValue model_id model_name modelId modelName
    ModuleNotFoundError moduleResolution MongoDB NamedTuple NameError nanoTime new_string NewDecoder
    NewEncoder NewReader newString newText NewWriter NextJS nextTick no_cache NODE_ENV node_modules NodeJS
    noEmit NotImplementedError NullPointerException nullptr_t old_string oldString oldText onChange
    onClick onSubmit OpenAI OPENAI_API_KEY OpenAPI OpenCode OpenRouter OPENROUTER_API_KEY
    optionalDependencies or_else OrderedDict ORIG_HEAD OSError OsString outDir output_tokens OutputStream
    outputTokens packageManager padEnd padStart page_size pageSize ParamSpec parse_args parseFloat
    parseInt PascalCase PathBuf pathToFileURL peerDependencies PermissionError PhantomData PostgreSQL
    PowerShell pre_commit prepublishOnly preventDefault printStackTrace ProcessPoolExecutor project_id
    projectId PromiseLike propTypes pull_request PULL_REQUEST_TEMPLATE push_str putIfAbsent python2
    python3 python_requires PyTorch querySelector querySelectorAll RangeError read_bytes read_csv
    read_file read_text ReadAll readdirSync ReadFile readFile readFileSync ReadonlyArray RecursionError
    reduceRight RefCell ReferenceError refresh_token relative_path relativePath RemoveAll removeChild
    removeEventListener replaceAll request_id requestAnimationFrame requestId resolveJsonModule ReturnType
    rev_parse RFC3339 RFC_3339 rmSync rootDir run_in_background run_until_complete RuntimeError
    RuntimeException RWMutex SCREAMING_SNAKE_CASE scripts/build.sh SECRET_KEY serde_json session_id
    SessionID sessionID sessionId sessionStorage setImmediate setInterval setName setTimeout setUpClass
    setValue sha256 sha512 size_t skipLibCheck snake_case spawnSync SQLAlchemy SQLite src/__init__.py
    src/App.js src/app.py src/app.ts src/App.tsx src/cli.ts src/config.ts src/index.js src/index.ts
    src/index.tsx src/lib.rs src/main.js src/main.py src/main.rs src/main.ts src/main.tsx src/types.ts
    src/utils.ts ssize_t StackOverflow start_line start_time started_at startedAt startLine startsWith
    startTime statSync status_code statusCode stop_reason StopIteration stopPropagation stopReason
    StringBuffer StringBuilder structuredClone SyntaxError system_prompt SystemExit systemPrompt tearDown
    tearDownClass TempDir TensorFlow test/index.js test123 test_utils TestMain tests/__init__.py
    tests/conftest.py textContent TextDecoder TextEncoder ThreadPoolExecutor timeout_ms TimeoutError
    timeoutMs timestamp_ms to_csv to_dict to_json to_owned to_string toArray toBeDefined toBeFalsy
    toBeNull toBeTruthy toBeUndefined toContain TodoRead TodoWrite toEqual toFixed toHaveBeenCalled
    toHaveBeenCalledTimes toHaveBeenCalledWith toHaveLength toHaveProperty toISOString toLocaleDateString
    toLocaleString toLocaleTimeString toLowerCase toMatch toMatchObject toMatchSnapshot tool_call
    tool_call_id tool_calls tool_input tool_name tool_output tool_result tool_use tool_use_id toolCall
    toolCallId toolCalls toolName toolResult toStrictEqual toString total_count total_tokens totalCount
    totalTokens toThrow toThrowError toUpperCase trimEnd TrimSpace trimStart TYPE_CHECKING TypedDict
    TypeError TypeScript TypeVar uint16 uint16_t Uint16Array uint32 uint32_t Uint32Array uint64 uint64_t
    uint8_t Uint8Array UINT_MAX UnicodeDecodeError UnicodeEncodeError unit_tests unlinkSync
    UnsupportedOperationException unwrap_or unwrap_or_default unwrap_or_else updated_at updatedAt URIError
    URLSearchParams useCallback useContext useEffect useMemo user_id user_name useReducer useRef userId
    userName useRouter UserWarning useState utf8mb4 ValueError valueOf VecDeque VSCode WaitGroup wasm32
    WeakMap WeakSet web_search WebAssembly WebFetch WebSearch WebSocket WebSockets with_capacity
    WithCancel WithTimeout WithValue workflows/build.yml workflows/ci.yml workflows/release.yml
    workflows/test.yml write_bytes write_file write_text WriteFile writeFile writeFileSync WriteString
    x86_64 YouTube ZeroDivisionError
    """.split()  # noqa: SIM905
)
"""Names that a model knows without having read them: of languages and their libraries, of formats, of
tools and products, of the fields that every interface has, and round or made-up numbers."""
