#pragma once
// How many threads are worth starting here: what the process may use, not what the machine has.

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace drafthorse {

struct CpuLimits {
  std::vector<int> cpus;        // logical CPUs of the affinity mask
  int cores = 1;                // distinct physical cores among them (hyper-thread siblings count once)
  std::optional<double> quota;  // cgroup limit in CPUs (v2 cpu.max, v1 cfs quota), the tightest of all levels
  // min(cores, quota rounded down), at least 1.
  int workers() const;
};

// What the processor calls itself, for caches of measurements; "unknown" when the system does not say.
std::string cpu_name(const std::filesystem::path& root = "/");

// Reads affinity from the kernel and files under `root` (tests give a folder; "/" is the machine).
CpuLimits read_cpu_limits(const std::filesystem::path& root = "/");

}  // namespace drafthorse
