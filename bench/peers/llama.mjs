// llama.mjs - one prefill and one decode run of llama.cpp, by way of node-llama-cpp, as JSON.
//
// usage: node llama.mjs MODEL.gguf THREADS PROMPT GENERATE DEPTH REPEAT
//
// Prints {"prefill":[tok/s, ...],"decode":[tok/s, ...],"build":"..."}: REPEAT runs of each, after one
// that is not counted. Prefill is PROMPT random tokens in batches of 512, decode GENERATE tokens one
// by one (greedy), both behind DEPTH tokens of context.
import { readFileSync } from "node:fs";
import { getLlama, LlamaLogLevel } from "node-llama-cpp";

const [path, ...numbers] = process.argv.slice(2);
const [threads, prompt, generate, depth, repeat] = numbers.map(Number);

const llama = await getLlama({ gpu: false, build: "never", skipDownload: true, maxThreads: threads,
    logLevel: LlamaLogLevel.error, progressLogs: false });
const model = await llama.loadModel({ modelPath: path, gpuLayers: 0 });
const context = await model.createContext({ contextSize: depth + Math.max(prompt, generate) + 8,
    batchSize: 512, threads: { ideal: threads, min: threads } });
const sequence = context.getSequence();
const vocabulary = model.fileInfo.metadata.tokenizer.ggml.tokens.length;

let state = 1;
function randomTokens(n) {
    return Array.from({ length: n }, () => {
        state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
        return state % Math.min(vocabulary, 151643); // no control tokens
    });
}

async function start() {
    await sequence.clearHistory();
    if (depth) await sequence.evaluateWithoutGeneratingNewTokens(randomTokens(depth));
}

async function prefill() {
    await start();
    const began = performance.now();
    await sequence.evaluateWithoutGeneratingNewTokens(randomTokens(prompt));
    return (prompt * 1000) / (performance.now() - began);
}

// The generator gives token i + 1 once token i has been computed; the first is outside the clock.
async function decode() {
    await start();
    let began = 0, n = 0;
    for await (const _ of sequence.evaluate(randomTokens(1), { temperature: 0, yieldEogToken: true })) {
        if (!began) began = performance.now();
        else if (++n === generate) break;
    }
    return (n * 1000) / (performance.now() - began);
}

const result = { prefill: [], decode: [] };
for (let i = 0; i <= repeat; i++) {
    const rates = [prompt ? await prefill() : 0, generate ? await decode() : 0];
    if (i) {
        result.prefill.push(rates[0]);
        result.decode.push(rates[1]);
    }
}
const manifest = new URL("node_modules/node-llama-cpp/package.json", import.meta.url);
result.build = "node-llama-cpp " + JSON.parse(readFileSync(manifest, "utf8")).version;
console.log(JSON.stringify(result));
process.exit(0);
