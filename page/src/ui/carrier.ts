/**
 * A replacement for `fetch` that reports upload progress, which browsers report for XMLHttpRequest only. The answer is
 * streamed as with `fetch`. The service sets no cookies, and the request is encrypted.
 */

/** Receives the number of bytes sent, and the total. */
export type Leaving = (sent: number, all: number) => void;

/** Each character of a text decoded as `x-user-defined` is one byte. */
const bytesOf = (text: string): Uint8Array => Uint8Array.from(text, (letter) => letter.charCodeAt(0) & 0xff);

/** Return a `fetch` with progress. `cancelled` or the signal of its options aborts it. */
export function carrierOf(leaving: Leaving, cancelled: AbortSignal): typeof fetch {
  return (target, options = {}) => {
    const signals = [cancelled, options.signal].filter((one) => one instanceof AbortSignal);
    const url = target instanceof Request ? target.url : new URL(target).href;
    return carry(url, options, AbortSignal.any(signals), leaving);
  };
}

const abortion = (): Error => new DOMException("the request was ended", "AbortError");

async function carry(url: string, options: RequestInit, ends: AbortSignal, leaving: Leaving): Promise<Response> {
  return new Promise((resolve, reject) => {
    const request = new XMLHttpRequest();
    let read = 0;
    let answer: ReadableStreamDefaultController<Uint8Array> | undefined;
    const body = new ReadableStream<Uint8Array>({
      start: (controller) => void (answer = controller),
      cancel: () => request.abort(),
    });
    const fail = (error: Error): void => {
      reject(error);
      answer?.error(error);
    };
    const hand = (): void => {
      const text = request.responseText;
      if (text.length > read) answer?.enqueue(bytesOf(text.slice(read)));
      read = text.length;
    };
    request.open(options.method ?? "GET", url);
    request.overrideMimeType("text/plain; charset=x-user-defined");
    new Headers(options.headers).forEach((value, name) => request.setRequestHeader(name, value));
    request.upload.addEventListener("progress", ({ loaded, total }) => leaving(loaded, total));
    request.addEventListener("readystatechange", () => {
      if (request.readyState !== XMLHttpRequest.HEADERS_RECEIVED) return;
      const { status, responseURL } = request;
      const headers = { "content-type": request.getResponseHeader("content-type") ?? "" };
      // The body of any other status is never read.
      if (responseURL === url) resolve(new Response(status === 200 ? body : null, { status, headers }));
      else {
        fail(new TypeError("the answer came from elsewhere"));
        request.abort();
      }
    });
    request.addEventListener("progress", hand);
    request.addEventListener("load", () => {
      hand();
      answer?.close();
    });
    request.addEventListener("error", () => fail(new TypeError("no answer")));
    request.addEventListener("abort", () => fail(abortion()));
    if (ends.aborted) {
      fail(abortion());
      return;
    }
    ends.addEventListener("abort", () => request.abort());
    request.send(options.body as Blob);
  });
}
