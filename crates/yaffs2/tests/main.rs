//! The integration tests, in one program: what they share is compiled once.

mod check;
mod corpus;
mod damage;
mod example;
mod handles;
mod model;
mod power;
mod reader;
mod smoke;
mod support;
