#pragma once
// Which names a frame of a template starts without.

#include "text/jinja_ast.h"

namespace drafthorse::jinja {

// jinja2 decides before a template runs where every name of a frame comes from. A name that a frame sets before it reads
// it, and that no outer frame mentions, has no value until it is set, even if the context has one: macros and loops that
// read it earlier find it undefined. Every other name is looked up outwards when it is read. This fills the `unset` lists.
void find_unset_names(Template& source);

}  // namespace drafthorse::jinja
