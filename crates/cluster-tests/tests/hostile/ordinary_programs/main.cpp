// Threads, exceptions, a folder, and numbers from the kernel.
#include <atomic>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <random>
#include <stdexcept>
#include <thread>
#include <vector>

int main() {
    std::atomic<long> sum = 0;
    std::vector<std::thread> threads;
    for (int part = 0; part < 4; part++)
        threads.emplace_back([&sum, part] { for (long i = part; i < 1000000; i += 4) sum += i; });
    for (auto &thread : threads) thread.join();
    std::cout << sum << '\n';
    try {
        std::vector<int>().at(0);
    } catch (const std::out_of_range &) {
        std::cout << "out of range\n";
    }
    std::filesystem::create_directories("folder/deeper");
    std::ofstream("folder/deeper/file") << std::random_device()() % 2 + 7;
    int seven_or_eight;
    std::ifstream("folder/deeper/file") >> seven_or_eight;
    std::cout << (seven_or_eight / 9) << ' ' << std::filesystem::remove_all("folder") << '\n';
}
