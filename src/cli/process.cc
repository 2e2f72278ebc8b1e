#include "cli/process.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

extern char** environ;

namespace drafthorse {
namespace {

constexpr size_t kMaxOutput = 64 << 10;
constexpr int kPollMilliseconds = 100;

std::vector<char*> pointers(const std::vector<std::string>& strings) {
  std::vector<char*> result;
  for (const std::string& string : strings) result.push_back(const_cast<char*>(string.c_str()));
  result.push_back(nullptr);
  return result;
}

// A pipe that programs started later do not inherit. (pipe2 would do it in one step, but macOS has none; another thread
// that starts a program between the two steps would pass the ends on.)
bool private_pipe(int (&fds)[2]) {
  if (::pipe(fds) != 0) return false;
  for (int fd : fds) ::fcntl(fd, F_SETFD, FD_CLOEXEC);
  return true;
}

// Reads what is there; false at the end of the stream.
bool drain(int fd, std::string& output) {
  char buffer[4096];
  ssize_t count = ::read(fd, buffer, sizeof(buffer));
  if (count < 0) return errno == EINTR || errno == EAGAIN;
  if (count == 0) return false;
  output.append(buffer, static_cast<size_t>(count));
  if (output.size() > kMaxOutput) output.erase(0, output.size() - kMaxOutput);
  return true;
}

}  // namespace

ProcessResult run_process(const std::vector<std::string>& argv, const std::vector<std::string>& extra_environment,
                          const std::function<bool()>& poll) {
  ProcessResult result;
  int pipe_fds[2];
  if (!private_pipe(pipe_fds)) return result;
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, pipe_fds[1], 1);
  posix_spawn_file_actions_adddup2(&actions, pipe_fds[1], 2);
  std::vector<std::string> environment = extra_environment;
  for (char** entry = environ; *entry; ++entry) environment.emplace_back(*entry);
  pid_t child = -1;
  int error =
      ::posix_spawnp(&child, argv[0].c_str(), &actions, nullptr, pointers(argv).data(), pointers(environment).data());
  posix_spawn_file_actions_destroy(&actions);
  ::close(pipe_fds[1]);
  if (error != 0) {
    ::close(pipe_fds[0]);
    result.status = 127;
    result.output = std::strerror(error);
    return result;
  }
  struct pollfd waiting {
    pipe_fds[0], POLLIN, 0
  };
  for (bool open = true; open;) {
    if (::poll(&waiting, 1, kPollMilliseconds) > 0) open = drain(pipe_fds[0], result.output);
    if (poll && !poll()) ::kill(child, SIGTERM);
  }
  ::close(pipe_fds[0]);
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  result.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return result;
}

}  // namespace drafthorse
