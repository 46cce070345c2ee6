//! Basic regular expressions of POSIX, as the C library understands them.

use std::ffi::CStr;
use std::mem::MaybeUninit;

/// A compiled expression. It matches a text if it matches any part of it.
#[derive(Debug)]
pub(crate) struct BasicExpression(libc::regex_t);

impl BasicExpression {
    /// Compiles an expression; `None` if it is none.
    pub(crate) fn new(expression: &CStr) -> Option<Self> {
        let mut compiled = MaybeUninit::uninit();
        // SAFETY: the expression is terminated, and the structure is written by the C library.
        let result =
            unsafe { libc::regcomp(compiled.as_mut_ptr(), expression.as_ptr(), libc::REG_NOSUB) };
        // SAFETY: a result of zero says that the structure was filled in.
        (result == 0).then(|| Self(unsafe { compiled.assume_init() }))
    }

    /// Whether it matches a part of `text`.
    pub(crate) fn matches(&self, text: &CStr) -> bool {
        // SAFETY: the expression was compiled, the text is terminated, and no matches are written.
        let result =
            unsafe { libc::regexec(&raw const self.0, text.as_ptr(), 0, std::ptr::null_mut(), 0) };
        result == 0
    }
}

impl Drop for BasicExpression {
    fn drop(&mut self) {
        // SAFETY: it was compiled, and is used no more.
        unsafe { libc::regfree(&raw mut self.0) };
    }
}

#[cfg(test)]
mod tests {
    use super::BasicExpression;

    #[test]
    fn an_expression_has_the_syntax_of_posix_and_matches_any_part() {
        let matches = |expression, text| Some(BasicExpression::new(expression)?.matches(text));
        assert_eq!(matches(c"auto", c"my autosnap"), Some(true));
        assert_eq!(matches(c"^auto$", c"autosnap"), Some(false));
        assert_eq!(matches(c"^S[A-Za-z0-9]*p$", c"S1ap"), Some(true));
        assert_eq!(matches(c"^a\\(b\\)\\{0,1\\}$", c"ab"), Some(true));
        assert_eq!(matches(c"^a(b)$", c"ab"), Some(false));
        assert_eq!(matches(c"a\\(b", c"ab"), None);
    }
}
