#include "cli/interrupt.h"

#include <signal.h>

namespace drafthorse {
namespace {

// A handler can reach nothing but a global.
volatile sig_atomic_t pending = 0;

void on_interrupt(int) { pending = 1; }

}  // namespace

void watch_interrupts() {
  struct sigaction action {};
  action.sa_handler = on_interrupt;
  sigemptyset(&action.sa_mask);
  sigaction(SIGINT, &action, nullptr);
}

bool interrupted() { return pending != 0; }
void clear_interrupt() { pending = 0; }

}  // namespace drafthorse
