#include "core/topology.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>

namespace drafthorse {
namespace {

namespace fs = std::filesystem;

// A stand-in for the machine's / with the files that read_cpu_limits looks at.
class Machine {
 public:
  Machine() : root_(fs::temp_directory_path() / ("drafthorse-topology-" + std::to_string(getpid()))) {
    fs::remove_all(root_);
  }
  ~Machine() { fs::remove_all(root_); }
  void write(const std::string& path, const std::string& text) const {
    fs::create_directories((root_ / path).parent_path());
    std::ofstream(root_ / path) << text;
  }
  CpuLimits limits() const { return read_cpu_limits(root_); }
  std::string name() const { return cpu_name(root_); }

 private:
  fs::path root_;
};

TEST(Topology, WithoutFilesCountsTheAffinityMask) {
  CpuLimits limits = Machine().limits();
  EXPECT_GE(limits.cpus.size(), 1u);
  EXPECT_EQ(limits.cores, static_cast<int>(limits.cpus.size()));
  EXPECT_FALSE(limits.quota.has_value());
  EXPECT_EQ(limits.workers(), limits.cores);
}

TEST(Topology, TheProcessorHasAName) {
  Machine machine;
  EXPECT_EQ(machine.name(), "unknown");
  machine.write("proc/cpuinfo",
                ": x\nprocessor\t: 0\nBogoMIPS\t: 50\nCPU implementer\t: 0x41\nCPU part\t: 0xd0c\n\n"
                "processor\t: 1\nCPU implementer\t: 0x41\n");
  EXPECT_EQ(machine.name(), "0x41 0xd0c");
  machine.write("proc/cpuinfo", "processor\t: 0\nmodel\t\t: 1\nmodel name\t: A Chip 7B13 @ 2 GHz\nflags\t:\n");
  EXPECT_EQ(machine.name(), "A Chip 7B13 @ 2 GHz");
}

TEST(Topology, SiblingsCountOnce) {
  Machine machine;
  for (int cpu : machine.limits().cpus) {
    machine.write("sys/devices/system/cpu/cpu" + std::to_string(cpu) + "/topology/thread_siblings_list", "0-1\n");
  }
  EXPECT_EQ(machine.limits().cores, 1);
}

TEST(Topology, TheTightestV2QuotaOfAllLevelsCounts) {
  Machine machine;
  machine.write("proc/self/cgroup", "0::/a/b\n");
  machine.write("sys/fs/cgroup/a/b/cpu.max", "max 100000\n");
  EXPECT_FALSE(machine.limits().quota.has_value());
  machine.write("sys/fs/cgroup/a/cpu.max", "150000 100000\n");
  EXPECT_DOUBLE_EQ(*machine.limits().quota, 1.5);
  EXPECT_EQ(machine.limits().workers(), 1);
  machine.write("sys/fs/cgroup/cpu.max", "50000 100000\n");
  EXPECT_DOUBLE_EQ(*machine.limits().quota, 0.5);
  EXPECT_EQ(machine.limits().workers(), 1);
}

TEST(Topology, V1Quota) {
  Machine machine;
  machine.write("proc/self/cgroup", "4:memory:/x\n3:cpu,cpuacct:/job\n");
  machine.write("sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_quota_us", "250000\n");
  machine.write("sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_period_us", "100000\n");
  EXPECT_DOUBLE_EQ(*machine.limits().quota, 2.5);
  machine.write("sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_quota_us", "-1\n");
  EXPECT_FALSE(machine.limits().quota.has_value());
}

TEST(Topology, QuotaRoundsDownAndNeverToZero) {
  CpuLimits limits;
  limits.cores = 8;
  limits.quota = 3.9;
  EXPECT_EQ(limits.workers(), 3);
  limits.quota = 0.2;
  EXPECT_EQ(limits.workers(), 1);
  limits.quota = 64;
  EXPECT_EQ(limits.workers(), 8);
}

TEST(Topology, NonsenseIsIgnored) {
  Machine machine;
  machine.write("proc/self/cgroup", "garbage\n0::/../../etc\n0:::\n");
  machine.write("sys/fs/cgroup/cpu.max", "fast please\n");
  EXPECT_FALSE(machine.limits().quota.has_value());
  EXPECT_GE(machine.limits().workers(), 1);
}

}  // namespace
}  // namespace drafthorse
