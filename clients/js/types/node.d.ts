// The few functions of Node that the client uses.
declare module 'node:fs/promises' {
  interface FileHandle {
    writeFile(data: string): Promise<void>;
    sync(): Promise<void>;
    close(): Promise<void>;
  }
  export function open(path: string, flags: string, mode?: number): Promise<FileHandle>;
  export function mkdir(path: string, options: { recursive: boolean; mode: number }): Promise<unknown>;
  export function readFile(path: string, encoding: 'utf8'): Promise<string>;
  export function readdir(path: string): Promise<string[]>;
  export function stat(path: string): Promise<{ mtimeMs: number }>;
  export function link(from: string, to: string): Promise<void>;
  export function unlink(path: string): Promise<void>;
}
