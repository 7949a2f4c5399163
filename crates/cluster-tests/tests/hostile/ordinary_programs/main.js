// Files that are read beside each other, a thread, a child; what it gets instead of a watch on a file, and the way that
// works without one.
const fs = require('fs');
const { execFile } = require('child_process');
const { promisify } = require('util');
const { Worker, isMainThread, parentPort } = require('worker_threads');

async function main() {
    await fs.promises.writeFile('text', 'some text');
    const texts = await Promise.all(Array.from({ length: 50 }, () => fs.promises.readFile('text', 'utf8')));
    console.log(texts.filter((text) => text === 'some text').length);
    console.log(await new Promise((done, fail) => new Worker(__filename).on('message', done).on('error', fail)));
    console.log((await promisify(execFile)('echo', ['a child'])).stdout.trim());
    try {
        fs.watch('text').close();
        console.log('watches files');
    } catch (refused) {
        console.log(refused.code);
    }
    const more = setInterval(() => fs.appendFileSync('text', '.'), 10);
    await new Promise((done) => fs.watchFile('text', { interval: 10 }, done));
    clearInterval(more);
    fs.unwatchFile('text');
    console.log('has seen a change');
}

if (isMainThread) {
    main();
} else {
    parentPort.postMessage(6 * 7);
}
