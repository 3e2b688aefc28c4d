//! Statements about the server: CHECKPOINT, KILL, SHUTDOWN, DBCC, endpoints, availability groups.

use super::{Parse, Parser};
use crate::ast::*;
use crate::keyword::Keyword as K;
use crate::lexer::{Symbol, TokenKind};

impl Parser<'_> {
    pub(super) fn checkpoint(&mut self) -> Parse<StatementKind> {
        self.expect(K::CHECKPOINT)?;
        let timed = matches!(self.kind(), TokenKind::Integer | TokenKind::Variable);
        let seconds = if timed { Some(self.expr()?) } else { None };
        Ok(StatementKind::Checkpoint(seconds))
    }

    pub(super) fn kill(&mut self) -> Parse<StatementKind> {
        self.expect(K::KILL)?;
        let target = if self.at(K::QUERY) {
            self.expect_words(&[K::QUERY, K::NOTIFICATION, K::SUBSCRIPTION])?;
            KillTarget::QueryNotification(if self.eat(K::ALL) {
                None
            } else {
                Some(self.expr()?)
            })
        } else if self.at(K::STATS) {
            self.expect_words(&[K::STATS, K::JOB])?;
            KillTarget::StatsJob(self.expr()?)
        } else {
            KillTarget::Session(self.expr()?)
        };
        let mut kill = Kill {
            target,
            status_only: false,
            outcome: None,
        };
        if self.eat(K::WITH) {
            match self.eat_any(&[K::STATUSONLY, K::COMMIT, K::ROLLBACK]) {
                Some(K::STATUSONLY) => kill.status_only = true,
                Some(K::COMMIT) => kill.outcome = Some(KillOutcome::Commit),
                Some(_) => kill.outcome = Some(KillOutcome::Rollback),
                None => return Err(self.unexpected()),
            }
        }
        Ok(StatementKind::Kill(kill))
    }

    pub(super) fn shutdown(&mut self) -> Parse<StatementKind> {
        self.expect(K::SHUTDOWN)?;
        Ok(StatementKind::Shutdown {
            no_wait: self.eat_words(&[K::WITH, K::NOWAIT]),
        })
    }

    pub(super) fn reconfigure(&mut self) -> Parse<StatementKind> {
        self.expect(K::RECONFIGURE)?;
        Ok(StatementKind::Reconfigure {
            with_override: self.eat_words(&[K::WITH, K::OVERRIDE]),
        })
    }

    pub(super) fn dbcc(&mut self) -> Parse<StatementKind> {
        self.expect(K::DBCC)?;
        let name = self.word_upper()?;
        let mut args = Vec::new();
        if self.eat_symbol(Symbol::LeftParen) && !self.eat_symbol(Symbol::RightParen) {
            args = self.list(Self::dbcc_arg)?;
            self.expect_close()?;
        }
        let options = if self.eat(K::WITH) {
            self.loose_options()?
        } else {
            Vec::new()
        };
        Ok(StatementKind::Dbcc(Dbcc {
            name,
            args,
            options,
        }))
    }

    /// Words, reserved or not, are options or object names; everything else is an expression.
    fn dbcc_arg(&mut self) -> Parse<Expr> {
        match self.kind() {
            TokenKind::Word(word) if word.is_reserved() && word != K::NULL => {
                let first = self.mark();
                let name = self.any_word()?;
                Ok(Expr::Column(ColumnRef {
                    table: None,
                    name,
                    span: self.span_from(first),
                }))
            }
            _ => self.expr(),
        }
    }

    pub(super) fn endpoint(&mut self, alter: bool) -> Parse<StatementKind> {
        self.expect(K::ENDPOINT)?;
        let mut endpoint = CreateEndpoint {
            alter,
            name: self.ident()?,
            owner: if self.eat(K::AUTHORIZATION) {
                Some(self.ident()?)
            } else {
                None
            },
            state: None,
            transport: None,
            payload: None,
        };
        if self.eat(K::STATE) {
            self.expect_equal()?;
            endpoint.state = Some(self.word_upper()?);
        }
        if self.eat(K::AS) {
            endpoint.transport = Some(self.named_list()?);
        }
        if self.eat(K::FOR) {
            endpoint.payload = Some(self.named_list()?);
        }
        Ok(StatementKind::CreateEndpoint(endpoint))
    }

    /// `TCP (LISTENER_PORT = 5022)`.
    fn named_list(&mut self) -> Parse<OptionItem> {
        let name = self.word_upper()?;
        self.expect_open()?;
        let items = if self.at_symbol(Symbol::RightParen) {
            Vec::new()
        } else {
            self.list(|parser| match parser.at_listener_address() {
                true => parser.listener_address(),
                false => parser.option_item(),
            })?
        };
        self.expect_close()?;
        Ok(OptionItem {
            name,
            value: OptionValue::List(items),
        })
    }

    /// At `LISTENER_IP = (10.0.0.1`?
    fn at_listener_address(&self) -> bool {
        let opens = self.symbol_at(1, Symbol::Equal) && self.symbol_at(2, Symbol::LeftParen);
        let unquoted = matches!(self.kind_at(3), TokenKind::Integer | TokenKind::Decimal);
        let name = self.text_of(self.token(0));
        opens && unquoted && name.eq_ignore_ascii_case("LISTENER_IP")
    }

    /// Four numbers with points are no number: they become the text that may stand there as well.
    fn listener_address(&mut self) -> Parse<OptionItem> {
        let name = self.word_upper()?;
        self.expect_equal()?;
        self.expect_open()?;
        let mut text = String::new();
        while matches!(self.kind(), TokenKind::Integer | TokenKind::Decimal) {
            let token = self.advance();
            text.push_str(self.text_of(token));
        }
        self.expect_close()?;
        let national = false;
        let address = OptionItem {
            name: String::new(),
            value: OptionValue::Expr(Expr::Literal(Literal::String { text, national })),
        };
        Ok(OptionItem {
            name,
            value: OptionValue::List(vec![address]),
        })
    }

    pub(super) fn create_availability_group(&mut self) -> Parse<StatementKind> {
        self.expect_words(&[K::AVAILABILITY, K::GROUP])?;
        let mut group = CreateAvailabilityGroup {
            name: self.ident()?,
            options: Vec::new(),
            databases: Vec::new(),
            replicas: Vec::new(),
            listener: None,
        };
        group.options = self.optional_with_options()?;
        if self.eat(K::FOR) && self.eat(K::DATABASE) {
            group.databases = self.list(Self::ident)?;
        }
        // Distributed groups name groups where others name replicas.
        if !self.eat_words(&[K::REPLICA, K::ON]) {
            self.expect_words(&[K::AVAILABILITY, K::GROUP, K::ON])?;
        }
        group.replicas = self.list(Self::replica_spec)?;
        if self.eat(K::LISTENER) {
            group.listener = Some(self.listener_spec()?);
        }
        Ok(StatementKind::CreateAvailabilityGroup(group))
    }

    fn replica_spec(&mut self) -> Parse<ReplicaSpec> {
        let server = self.string()?;
        self.expect(K::WITH)?;
        Ok(ReplicaSpec {
            server,
            options: self.option_list()?,
        })
    }

    /// `'dns' ( WITH IP ( ('a', 'b') ), PORT = 1433 )`.
    fn listener_spec(&mut self) -> Parse<ListenerSpec> {
        let name = self.string()?;
        Ok(ListenerSpec {
            name,
            options: self.option_list()?,
        })
    }

    pub(super) fn alter_availability_group(&mut self) -> Parse<StatementKind> {
        self.expect_words(&[K::AVAILABILITY, K::GROUP])?;
        let name = self.ident()?;
        let action = self.availability_group_action()?;
        Ok(StatementKind::AlterAvailabilityGroup(
            AlterAvailabilityGroup { name, action },
        ))
    }

    fn availability_group_action(&mut self) -> Parse<AvailabilityGroupAction> {
        use AvailabilityGroupAction as Action;
        let verb = self.keyword();
        self.word_upper()?;
        match verb {
            K::SET => self.option_list().map(Action::Set),
            K::JOIN if self.at(K::AVAILABILITY) => {
                self.expect_words(&[K::AVAILABILITY, K::GROUP, K::ON])?;
                self.list(Self::replica_spec).map(Action::JoinGroups)
            }
            K::JOIN => self.optional_with_options().map(Action::Join),
            K::FAILOVER => Ok(Action::Failover),
            K::FORCE_FAILOVER_ALLOW_DATA_LOSS => Ok(Action::ForceFailoverAllowDataLoss),
            K::OFFLINE => Ok(Action::Offline),
            K::ONLINE => Ok(Action::Online),
            K::GRANT | K::DENY => {
                self.expect_words(&[K::CREATE, K::ANY, K::DATABASE])?;
                Ok(if verb == K::GRANT {
                    Action::GrantCreateAnyDatabase
                } else {
                    Action::DenyCreateAnyDatabase
                })
            }
            K::RESTART => {
                self.expect(K::LISTENER)?;
                self.string().map(Action::RestartListener)
            }
            K::ADD | K::MODIFY | K::REMOVE => self.group_member_action(verb),
            _ => Err(self.unexpected()),
        }
    }

    fn group_member_action(&mut self, verb: K) -> Parse<AvailabilityGroupAction> {
        use AvailabilityGroupAction as Action;
        match (verb, self.eat_any(&[K::DATABASE, K::REPLICA, K::LISTENER])) {
            (K::ADD, Some(K::DATABASE)) => self.list(Self::ident).map(Action::AddDatabases),
            (K::REMOVE, Some(K::DATABASE)) => self.list(Self::ident).map(Action::RemoveDatabases),
            (K::ADD, Some(K::LISTENER)) => self.listener_spec().map(Action::AddListener),
            (K::MODIFY, Some(K::LISTENER)) => self.listener_spec().map(Action::ModifyListener),
            (K::REMOVE, Some(K::LISTENER)) => self.string().map(Action::RemoveListener),
            (_, Some(K::REPLICA)) => {
                self.expect(K::ON)?;
                match verb {
                    K::ADD => self.list(Self::replica_spec).map(Action::AddReplicas),
                    K::MODIFY => self.list(Self::replica_spec).map(Action::ModifyReplicas),
                    _ => self.list(Self::string).map(Action::RemoveReplicas),
                }
            }
            _ => Err(self.unexpected()),
        }
    }
}
