#pragma once
// One function a command. Each prints its answer on stdout, what it says meanwhile on stderr, and returns how it went.

#include "cli/options.h"
#include "core/result.h"

namespace drafthorse {

Status serve_command(const Options& options);
Status run_command(const Options& options);
Status generate_command(const Options& options);
Status pull_command(const Options& options);
Status list_command(const Options& options);
Status inspect_command(const Options& options);
Status bench_command(const Options& options);
Status selftest_command(const Options& options);

// Runs options.command. The exit code: 0 done, 1 failed, 2 the command line was wrong, 130 stopped by Ctrl-C.
int run_command_line(int argc, const char* const* argv);

}  // namespace drafthorse
