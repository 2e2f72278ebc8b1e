#pragma once
// Running another program and waiting for it.

#include <functional>
#include <string>
#include <vector>

namespace drafthorse {

struct ProcessResult {
  int status = -1;     // exit status; 128 + signal when a signal ended it; 127 when it could not be started
  std::string output;  // the last 64 KiB of stdout and stderr together
};

// Runs argv[0] from PATH with stdin closed. `extra_environment` ("NAME=value") is added to ours. `poll` is called
// about ten times a second; when it returns false the child gets SIGTERM.
ProcessResult run_process(const std::vector<std::string>& argv, const std::vector<std::string>& extra_environment,
                          const std::function<bool()>& poll);

}  // namespace drafthorse
