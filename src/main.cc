#include "cli/commands.h"

int main(int argc, char** argv) { return drafthorse::run_command_line(argc, argv); }
