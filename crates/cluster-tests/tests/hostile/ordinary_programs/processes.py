# A pool of processes, shared memory, and a queue: locks in shared memory, pipes, files in /dev/shm.
import multiprocessing
from multiprocessing.shared_memory import SharedMemory


def square(number):
    return number * number


if __name__ == '__main__':
    with multiprocessing.Pool(4) as pool:
        print(sum(pool.map(square, range(100))))
    memory = SharedMemory(create=True, size=4096)
    memory.buf[0] = 7
    same = SharedMemory(memory.name)
    print(same.buf[0])
    same.close()
    memory.close()
    memory.unlink()
    queue = multiprocessing.Queue()
    child = multiprocessing.Process(target=queue.put, args=('queued',))
    child.start()
    print(queue.get())
    child.join()
