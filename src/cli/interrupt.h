#pragma once
// Ctrl-C as a question that long work asks now and then.

namespace drafthorse {

// From now on SIGINT is remembered instead of ending the program; system calls that wait return EINTR.
void watch_interrupts();
bool interrupted();  // since the last clear
void clear_interrupt();

}  // namespace drafthorse
