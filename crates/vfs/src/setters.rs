//! Options that may grow.

/// In an `impl` of options: for each field a method that gives the options with another value of it. What a method
/// takes is written as a parameter is, and converted.
#[doc(hidden)]
#[macro_export]
macro_rules! setters {
    ($($name:ident: $given:ty),+ $(,)?) => {
        $(
            #[doc = concat!("Sets [`", stringify!($name), "`](field@Self::", stringify!($name), ").")]
            #[must_use]
            pub fn $name(mut self, $name: $given) -> Self {
                self.$name = $name.into();
                self
            }
        )+
    };
}
