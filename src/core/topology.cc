#include "core/topology.h"

#if defined(__linux__)
#include <sched.h>
#elif defined(__APPLE__)
#include <sys/sysctl.h>
#endif

#include <algorithm>
#include <fstream>
#include <numeric>
#include <set>
#include <sstream>
#include <string>
#include <thread>

#include "core/cgroup.h"

namespace drafthorse {
namespace {

namespace fs = std::filesystem;

std::optional<std::string> read_line(const fs::path& path) {
  std::ifstream file(path);
  std::string line;
  if (!file || !std::getline(file, line)) return std::nullopt;
  return line;
}

// All CPUs where the system has no affinity masks, or a longer one than this.
std::vector<int> affinity_cpus() {
  std::vector<int> cpus;
#if defined(__linux__)
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof set, &set) == 0) {
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
      if (CPU_ISSET(cpu, &set)) cpus.push_back(cpu);
    }
  }
#endif
  if (cpus.empty()) {
    cpus.resize(std::max(std::thread::hardware_concurrency(), 1u));
    std::iota(cpus.begin(), cpus.end(), 0);
  }
  return cpus;
}

// CPUs that share a core name each other in the same list, so the list itself identifies the core.
int count_cores(const fs::path& root, const std::vector<int>& cpus) {
  std::set<std::string> cores;
  for (int cpu : cpus) {
    fs::path topology = root / "sys/devices/system/cpu" / ("cpu" + std::to_string(cpu)) / "topology";
    auto siblings = read_line(topology / "thread_siblings_list");
    cores.insert(siblings ? *siblings : "cpu" + std::to_string(cpu));
  }
  return static_cast<int>(cores.size());
}

// "max 100000" or "150000 100000".
std::optional<double> v2_quota(const fs::path& folder) {
  auto line = read_line(folder / "cpu.max");
  if (!line) return std::nullopt;
  std::istringstream in(*line);
  double quota = 0, period = 0;
  if (!(in >> quota >> period) || quota <= 0 || period <= 0) return std::nullopt;
  return quota / period;
}

std::optional<double> v1_quota(const fs::path& folder) {
  auto quota = read_line(folder / "cpu.cfs_quota_us"), period = read_line(folder / "cpu.cfs_period_us");
  if (!quota || !period) return std::nullopt;
  double q = std::strtod(quota->c_str(), nullptr), p = std::strtod(period->c_str(), nullptr);
  if (q <= 0 || p <= 0) return std::nullopt;
  return q / p;
}

// The tightest quota of all levels.
std::optional<double> cgroup_quota(const fs::path& root) {
  std::optional<double> limit;
  each_cgroup(root, "cpu", [&](const fs::path& folder, bool v2) {
    const auto quota = v2 ? v2_quota(folder) : v1_quota(folder);
    if (quota && (!limit || *quota < *limit)) limit = quota;
  });
  return limit;
}

}  // namespace

// /proc/cpuinfo, where there is one, gives a name on x86 and numbers of implementer and part on Arm, for each logical CPU.
std::string cpu_name(const fs::path& root) {
  std::ifstream file(root / "proc/cpuinfo");
  std::string arm;
  for (std::string line; std::getline(file, line);) {
    const size_t colon = line.find(':');
    if (colon == std::string::npos) continue;
    const std::string key = line.substr(0, line.substr(0, colon).find_last_not_of(" \t") + 1);
    const std::string value = line.substr(std::min(line.find_first_not_of(" \t", colon + 1), line.size()));
    if (key == "model name" && !value.empty()) return value;
    if (key == "CPU implementer" || key == "CPU part") arm += (arm.empty() ? "" : " ") + value;
    if (key == "CPU part") return arm;
  }
#if defined(__APPLE__)
  char brand[256] = {};
  size_t size = sizeof brand - 1;
  if (sysctlbyname("machdep.cpu.brand_string", brand, &size, nullptr, 0) == 0 && brand[0]) return brand;
#endif
  return arm.empty() ? "unknown" : arm;
}

int CpuLimits::workers() const {
  int workers = cores;
  if (quota) workers = std::min(workers, static_cast<int>(std::max(1.0, *quota)));
  return std::max(workers, 1);
}

CpuLimits read_cpu_limits(const std::filesystem::path& root) {
  CpuLimits limits;
  limits.cpus = affinity_cpus();
  limits.cores = count_cores(root, limits.cpus);
  limits.quota = cgroup_quota(root);
  return limits;
}

}  // namespace drafthorse
